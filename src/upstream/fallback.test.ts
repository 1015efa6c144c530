import { describe, expect, test } from 'bun:test';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { GatewayError } from '../core/errors.ts';
import type { FailureKind } from '../dialects/dialect.ts';
import { Catalog, type Offer } from '../route/catalog.ts';
import { Health } from '../route/health.ts';
import type { AttemptResult } from './attempt.ts';
import { type AttemptEntry, openByFor, tryOffers } from './fallback.ts';

const model = (id: string) => modelAt(id, [{ provider: 'north' }, { provider: 'south' }]);

const catalog = new Catalog(
  [model('a/a'), model('b/b')],
  new Map(['north', 'south'].map((name) => [name, providerNamed(name)])),
);
const plan = [...catalog.offers('a/a'), ...catalog.offers('b/b')];

function failed(kind: FailureKind): AttemptResult {
  const failure = { kind, status: null, message: 'no', retryAfterSeconds: null };
  return { kind: 'failed', failure };
}

const metrics = {
  usage: undefined,
  finishReason: 'stop',
  outputCharacters: 1,
  failure: undefined,
};
const answered: AttemptResult = { kind: 'reply', reply: { metrics, write: () => '{}' } };

/** Tries the plan with these results, one per attempt. */
function tryPlan(
  results: readonly AttemptResult[],
  client = new AbortController(),
  openBy = Number.POSITIVE_INFINITY,
) {
  const tried: string[] = [];
  const attempts: AttemptEntry[] = [];
  const health = new Health();
  const tryOffer = async (offer: Offer) => {
    tried.push(offer.upstreamModel);
    if (Number.isFinite(openBy)) await Bun.sleep(openBy - performance.now() + 5);
    return results[tried.length - 1] ?? answered;
  };
  const call = { attempts, clientSignal: client.signal };
  const opened = tryOffers(plan, tryOffer, health, call, openBy);
  return { opened, tried, attempts, health };
}

describe('tryOffers', () => {
  test('stops at the first answer', async () => {
    const { opened, tried } = tryPlan([failed('server')]);
    expect((await opened).offer.upstreamModel).toBe('a/a@south');
    expect(tried).toEqual(['a/a@north', 'a/a@south']);
  });

  test('tries no more offers once the answer should have begun', async () => {
    const late = [failed('timeout'), answered];
    const { opened, tried } = tryPlan(late, undefined, performance.now() + 20);
    await expect(opened).rejects.toMatchObject({ symbol: 'upstream_error', status: 504 });
    expect(tried).toEqual(['a/a@north']);
  });

  test('limits a plan to 20 minutes, or to the timeout of its first provider', () => {
    const [offer] = plan;
    if (!offer) throw new Error('The plan is empty.');
    const slow = { ...offer, provider: { ...offer.provider, timeoutMs: 3_000_000 } };
    expect([openByFor([offer], 1_000), openByFor([slow], 1_000)]).toEqual([1_201_000, 3_001_000]);
  });

  test('skips the other offers of a model that rejected the request', async () => {
    const { opened, tried, health } = tryPlan([failed('request')]);
    expect((await opened).offer.model.id).toBe('b/b');
    expect(tried).toEqual(['a/a@north', 'b/b@north']);
    const [north] = plan;
    for (let i = 0; north && i < 4; i++) health.failed(north);
    expect(north && health.state(north)).toBe('closed');
  });

  test('names the rejected parameter but redacts keys', async () => {
    const rejected = (param: string): AttemptResult => {
      const failure = { kind: 'request', status: 400, message: 'no', param } as const;
      return { kind: 'failed', failure: { ...failure, retryAfterSeconds: null } };
    };
    const reported = async (param: string) => {
      const { opened } = tryPlan([rejected(param), rejected(param)]);
      return opened.then(null, (error: unknown) => error);
    };
    expect(await reported('tools[0].name')).toMatchObject({ status: 400, param: 'tools[0].name' });
    expect(await reported('key-sk-abcdefgh')).toMatchObject({ param: '[key]' });
  });

  test('records each attempt with its outcome', async () => {
    const { opened, attempts } = tryPlan([failed('timeout'), failed('credential')]);
    await opened;
    expect(attempts.map(({ provider, model, outcome }) => [provider, model, outcome])).toEqual([
      ['north', 'a/a', 'timeout'],
      ['south', 'a/a', 'credential'],
      ['north', 'b/b', 'answered'],
    ]);
  });

  test('allows another probe if a probe failed with an internal error', async () => {
    const clock = { now: 1_000_000 };
    const health = new Health(() => clock.now);
    const [north] = plan;
    if (!north) throw new Error('There is no offer.');
    for (let i = 0; i < 5; i++) health.failed(north);
    clock.now += 5_000;
    expect([health.admit(north), health.admit(north)]).toEqual([true, false]);
    const full = () => Promise.reject(new GatewayError('service_unavailable', 'No memory.'));
    const { signal: clientSignal } = new AbortController();
    const call = { attempts: [], clientSignal };
    await expect(tryOffers(plan, full, health, call, openByFor(plan))).rejects.toThrow(
      'No memory.',
    );
    expect([health.admit(north), health.admit(north)]).toEqual([true, false]);
  });

  test('stops when the client disconnects, without affecting health', async () => {
    const client = new AbortController();
    client.abort();
    const { opened, tried, attempts, health } = tryPlan([failed('unreachable')], client);
    await expect(opened).rejects.toThrow('The client closed the connection.');
    expect(tried).toHaveLength(1);
    expect(attempts).toMatchObject([
      { provider: 'north', outcome: 'client_disconnected', message: null },
    ]);
    const [north] = plan;
    for (let i = 0; north && i < 4; i++) health.failed(north);
    expect(north && health.state(north)).toBe('closed');
  });
});
