import { expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import { providerNamed } from '../../../tests/support/offers.ts';
import type { Model } from '../../config/config.ts';
import { noPreferences } from '../../core/request-info.ts';
import type { TokenCountRequest } from '../../dialects/dialect.ts';
import { Catalog } from '../../route/catalog.ts';
import { Health } from '../../route/health.ts';
import { ProviderKeys } from '../../route/provider-keys.ts';
import { publicOnly } from '../../upstream/guard/address-policy.ts';
import { createTokenCounter } from './count-tokens.ts';

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
const requestedBy = {
  ...{ caller, requestId: '', replayOptions: { idempotencyKey: null } },
  clientHeader: () => null,
};
const catalog = new Catalog([model], new Map([['north', provider]]));
const { signal } = new AbortController();
const providerKeys = new ProviderKeys({
  keySetAside: () => undefined,
  keyRestored: () => undefined,
});

/** Returns a count request that isn't sent, and the upstream models that it was written for. */
function counting(extraFields: Partial<TokenCountRequest['request']> = {}) {
  const targets: string[] = [];
  const count: TokenCountRequest = {
    request: {
      models: ['acme/a'],
      preferences: noPreferences,
      parameters: [],
      images: [],
      user: null,
      ...extraFields,
    },
    supports: () => true,
    write({ upstreamModel }) {
      targets.push(upstreamModel);
      return undefined;
    },
    read: () => undefined,
  };
  return { count, targets };
}

test('a token count does not use up the probe of a recovering provider', async () => {
  let now = 1_000_000;
  const health = new Health(() => now);
  const { count, targets } = counting();
  const countUpstream = createTokenCounter(
    async () => catalog,
    { health, providerKeys },
    publicOnly,
  );
  const [first] = catalog.offers('acme/a');
  if (!first) throw new Error('the model has no offer');
  for (let failures = 0; failures < 5; failures += 1) health.failed(first);
  await countUpstream(count, requestedBy, signal);
  now += 5_001;
  await countUpstream(count, requestedBy, signal);
  expect(targets).toEqual(['second', 'first']);
  expect(health.admit(first)).toBe(true);
});

const at = (url: string) => [{ param: 'messages[0].content[0].source', url }];
const inside = at('https://vendor.example/v1/files/a');

test.each([
  ['not for a file ID', { ownAccount: { param: 'file_id', why: 'is stored there' } }, []],
  ['not for a URL at the provider', { urls: inside }, []],
  ['not for an image at the provider', { images: inside }, []],
  ['for an image elsewhere', { images: at('https://pictures.example/a.png') }, ['first']],
])(
  "tokens are counted upstream unless the content is in the operator's account: %s",
  async (_, extraFields, expected) => {
    const { count, targets } = counting(extraFields);
    const countUpstream = createTokenCounter(
      async () => catalog,
      { health: new Health(), providerKeys },
      publicOnly,
    );
    expect(await countUpstream(count, requestedBy, signal)).toBeUndefined();
    expect(targets).toEqual(expected);
  },
);
