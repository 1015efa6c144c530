import { describe, expect, test } from 'bun:test';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { fc } from '../../tests/support/random.ts';
import type { Plan } from '../config/config.ts';
import { withPriceChanges } from '../config/prices.ts';
import type { Credential } from '../core/caller.ts';
import { Secret } from '../core/secret.ts';
import { parseUsd } from '../money/price/usd.ts';
import { createCatalogOf, pricingTime } from './priced-catalogs.ts';

const providers = new Map([
  ['one', providerNamed('one')],
  ['two', providerNamed('two')],
]);
const catalogOfPrices = (
  prices: readonly { model: string; provider: string; from?: string; pricing: object }[],
  plans: ReadonlyMap<string, Plan> = new Map(),
  credentials: readonly Credential[] = [],
) => {
  const models = withPriceChanges(
    [modelAt('a/b', [{ provider: 'one' }, { provider: 'two' }])],
    prices,
  );
  const config = {
    ambiguousModelNames: 'first' as const,
    aliases: [],
    plans,
    billing: {
      byokFeeBasisPoints: 500,
      defaultPlan: plans.has('default') ? 'default' : null,
      durability: 'journal' as const,
      abandoned: 'input' as const,
    },
  };
  return createCatalogOf({ config, models, providers, credentialsOf: () => credentials });
};

async function pricesAt(catalogOf: ReturnType<typeof catalogOfPrices>, at: number) {
  const catalog = await catalogOf({ tenantId: 'acme', plan: null }, at);
  return catalog.offers('a/b').map(({ pricing, pricedFrom }) => [pricing.prompt, pricedFrom]);
}

test.each([
  [{ receivedAt: 1_000 }, 1_250],
  // A job's time is already that of the store.
  [{ receivedAt: 1_000, pricedAt: 700 }, 700],
])('the prices of %j are those of the store at %d', (call, at) => {
  expect(pricingTime(call, 250)).toBe(at);
});

describe('a history of prices', () => {
  test('has the prices of a book at every moment, in any order of requests', async () => {
    const change = fc.record({
      provider: fc.constantFrom('one', 'two'),
      from: fc.integer({ min: 0, max: 50 }),
      prompt: fc.nat(99).map(String),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(change, {
          maxLength: 12,
          selector: ({ provider, from }) => `${provider} ${from}`,
        }),
        fc.array(fc.integer({ min: -5, max: 60 }), { maxLength: 40 }),
        async (changes, moments) => {
          const catalogOf = catalogOfPrices(
            changes.map(({ provider, from, prompt }) => ({
              model: 'a/b',
              provider,
              from: new Date(from).toISOString(),
              pricing: { prompt, completion: '1' },
            })),
          );
          for (const at of moments) {
            const book = ['one', 'two'].map((name) => {
              let entry: [string, number | null] = ['1', null];
              for (let time = 0; time <= at; time += 1) {
                const found = changes.find((c) => c.provider === name && c.from === time);
                if (found) entry = [found.prompt, time];
              }
              return entry;
            });
            expect(await pricesAt(catalogOf, at)).toEqual(book);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  test('starts with the prices without a start time, in place of those of the model', async () => {
    const catalogOf = catalogOfPrices([
      { model: 'a/b', provider: 'two', pricing: { prompt: '7', completion: '1' } },
    ]);
    expect(await pricesAt(catalogOf, 0)).toEqual([
      ['1', null],
      ['7', null],
    ]);
  });

  test('returns the same catalog until a price changes', async () => {
    const from = new Date(100).toISOString();
    const pricing = { prompt: '7', completion: '1' };
    const catalogOf = catalogOfPrices([{ model: 'a/b', provider: 'one', from, pricing }]);
    const caller = { tenantId: 'acme', plan: null };
    const [before, late, after] = [99, 0, 100].map((at) => catalogOf(caller, at));
    expect(late).toBe(before as never);
    expect(after).not.toBe(before as never);
    expect(catalogOf(caller, 99)).toBe(before as never);
  });

  test('changes at the first millisecond of the next price', async () => {
    const from = Date.UTC(2100, 0, 1);
    const catalogOf = catalogOfPrices([
      {
        ...{ model: 'a/b', provider: 'one', from: new Date(from).toISOString() },
        pricing: { prompt: '7', completion: '1' },
      },
    ]);
    expect((await pricesAt(catalogOf, from - 1))[0]).toEqual(['1', null]);
    expect((await pricesAt(catalogOf, from))[0]).toEqual(['7', from]);
  });
});

describe('a plan', () => {
  const planOf = (plan: string, factorBasisPoints: number, byokFeeBasisPoints: number | null) =>
    [plan, { plan, factorBasisPoints, surcharge: {}, byokFeeBasisPoints }] as const;
  const plans = new Map([planOf('default', 20_000, null), planOf('pro', 30_000, 100)]);
  const offersWith = async (plan: string | null, credentials: readonly Credential[] = []) => {
    const catalog = await catalogOfPrices([], plans, credentials)({ tenantId: 't', plan }, 0);
    return catalog.offers('a/b');
  };

  test.each([
    ['pro', '3'],
    [null, '2'],
    ['removed', '2'],
  ])('named %p charges $%s', async (plan, prompt) => {
    const [offer] = await offersWith(plan);
    expect(offer).toMatchObject({ pricing: { prompt }, margin: { list: { prompt: '1' } } });
  });

  test.each([
    ['pro', 100],
    [null, 500],
  ])('named %p takes %d basis points of the list price for a provider key', async (plan, fee) => {
    const credential = { provider: 'one', apiKey: new Secret('own'), baseUrl: null };
    const [own] = await offersWith(plan, [
      { ...credential, mode: 'byok_only', credentialVersion: '1' },
    ]);
    expect(own).toMatchObject({ pricing: { prompt: '1' }, margin: null });
    expect(own?.prices.prompt).toBe(parseUsd('1') as bigint);
    expect(own?.ownAccount?.feeBasisPoints).toBe(fee);
  });
});
