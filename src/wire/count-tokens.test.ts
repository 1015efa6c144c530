import { expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { providerNamed } from '../../tests/support/offers.ts';
import type { Model } from '../config/config.ts';
import { noPreferences } from '../core/ask.ts';
import type { Count } from '../dialects/count.ts';
import { Catalogue } from '../route/catalogue.ts';
import { Health } from '../route/health.ts';
import { publicOnly } from '../upstream/guard/address-guard.ts';
import { makeCountUpstream } from './count-tokens.ts';

const baseUrl = 'https://vendor.example/v1';
const provider = providerNamed('north', { dialect: 'anthropic', baseUrl });
const endpoint = { provider: 'north', pricing: { prompt: '1', completion: '1' } };
const model: Model = {
  id: 'acme/a',
  name: 'A',
  input_modalities: ['text'],
  output_modalities: ['text'],
  features: [],
  endpoints: [
    { ...endpoint, model: 'first', priority: 0 },
    { ...endpoint, model: 'second', priority: 1 },
  ],
};
const caller = callerOf('t');
const catalogue = new Catalogue([model], new Map([['north', provider]]));
const { signal } = new AbortController();

/** A count that goes no further than to be written, and where it was. */
function counting(more: Partial<Count['ask']> = {}) {
  const targets: string[] = [];
  const count: Count = {
    ask: { models: ['acme/a'], preferences: noPreferences, parameters: [], images: [], ...more },
    isFor: () => true,
    write({ upstreamModel }) {
      targets.push(upstreamModel);
      return undefined;
    },
    read: () => undefined,
  };
  return { count, targets };
}

test('a count leaves the probe of a recovering provider to a request that judges it', async () => {
  let now = 1_000_000;
  const health = new Health(() => now);
  const { count, targets } = counting();
  const countUpstream = makeCountUpstream(async () => catalogue, health, publicOnly);
  const [first] = catalogue.offers('acme/a');
  if (!first) throw new Error('the model has no offer');
  for (let failures = 0; failures < 5; failures += 1) health.failed(first);
  await countUpstream(count, caller, signal);
  now += 5_001;
  await countUpstream(count, caller, signal);
  expect(targets).toEqual(['second', 'first']);
  expect(health.admit(first)).toBe(true);
});

const at = (url: string) => [{ param: 'messages[0].content[0].source', url }];
const inside = at('https://vendor.example/v1/files/a');

test.each([
  ['by its id', { ownAccount: { param: 'file_id', why: 'is kept there' } }, []],
  ['by its address', { addresses: inside }, []],
  ['as a picture', { images: inside }, []],
  ['unless it lies elsewhere', { images: at('https://pictures.example/a.png') }, ['first']],
])('what lies in the operator’s account is not measured: %s', async (_, more, expected) => {
  const { count, targets } = counting(more);
  const countUpstream = makeCountUpstream(async () => catalogue, new Health(), publicOnly);
  expect(await countUpstream(count, caller, signal)).toBeUndefined();
  expect(targets).toEqual(expected);
});
