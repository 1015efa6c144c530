import { expect, test } from 'bun:test';
import { providerNamed } from '../../tests/support/offers.ts';
import type { Model } from '../config/config.ts';
import { Catalogue } from './catalogue.ts';

const quirks = { developer_role: 'system', output_limit: 'max_tokens' } as const;
const vendor = providerNamed('vendor', { quirks });

function model(id: string, endpoints: Model['endpoints']): Model {
  const text: ['text'] = ['text'];
  return { id, name: id, input_modalities: text, output_modalities: text, features: [], endpoints };
}

const at = { model: 'up', priority: 0, pricing: { prompt: '0.5', completion: '1' } };
const catalogue = new Catalogue(
  [
    model('acme/live', [
      { ...at, provider: 'absent' },
      { ...at, provider: 'vendor', quirks: { output_limit: 'max_completion_tokens' } },
    ]),
    model('acme/responses', [{ ...at, provider: 'vendor', dialect: 'openai-responses' }]),
    model('acme/dead', [{ ...at, provider: 'absent' }]),
  ],
  new Map([['vendor', vendor]]),
);

test('endpoints need a configured provider, and models such an endpoint to be live', () => {
  expect(catalogue.offers('acme/live').map((offer) => offer.provider.name)).toEqual(['vendor']);
  expect(catalogue.offers('acme/dead')).toEqual([]);
  expect(catalogue.offers('acme/nobody')).toEqual([]);
  expect(catalogue.live().map(({ id }) => id)).toEqual(['acme/live', 'acme/responses']);
  expect(catalogue.model('acme/dead')?.id).toBe('acme/dead');
});

test('an endpoint’s quirks lie over its provider’s, and its dialect in place of it', () => {
  expect(catalogue.offers('acme/live')[0]).toMatchObject({
    dialect: 'openai',
    quirks: { developer_role: 'system', output_limit: 'max_completion_tokens' },
    prices: { prompt: 500_000_000n, completion: 1_000_000_000n, cacheRead: 500_000_000n },
  });
  expect(catalogue.offers('acme/responses')[0]?.dialect).toBe('openai-responses');
});

test('a misspelt alias is answered with the nearest one that can be called', () => {
  expect(catalogue.suggest('acme/lives')).toBe('acme/live');
  expect(catalogue.suggest('acme/deads')).not.toBe('acme/dead');
});

test('an endpoint speaks on its own terms, or else on those of its model', () => {
  const endpoint = { ...at, provider: 'vendor' };
  const own = { ...endpoint, speech: { input_characters_max: 50 } };
  const voice = { ...model('acme/voice', [endpoint, own]), speech: { input_characters_max: 100 } };
  const catalogue = new Catalogue([voice], new Map([['vendor', vendor]]));
  const limits = catalogue.offers('acme/voice').map(({ speech }) => speech?.input_characters_max);
  expect(limits).toEqual([100, 50]);
});
