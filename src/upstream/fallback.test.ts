import { describe, expect, test } from 'bun:test';
import { modelAt, providerNamed, withKeys } from '../../tests/support/offers.ts';
import { GatewayError } from '../core/errors.ts';
import type { FailureKind } from '../dialects/dialect.ts';
import { Catalog, type Offer } from '../route/catalog.ts';
import { Health } from '../route/health.ts';
import { KeyRotation, ProviderKeys } from '../route/provider-keys.ts';
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

const nobody = { caller: { tenantId: 't' }, operation: undefined };
const silent = { keySetAside: () => undefined, keyRestored: () => undefined };

function statesOf(health: Health, keys = new ProviderKeys(silent)) {
  return {
    health,
    providerKeys: { rotationOf: (offer: Offer) => new KeyRotation(keys, offer, null) },
  };
}

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
  const call = { attempts, clientSignal: client.signal, ...nobody };
  const opened = tryOffers(plan, tryOffer, statesOf(health), call, openBy);
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
    const call = { attempts: [], clientSignal, ...nobody };
    await expect(tryOffers(plan, full, statesOf(health), call, openByFor(plan))).rejects.toThrow(
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

describe('tryOffers at a provider with several keys', () => {
  const limited = (retryAfterSeconds: number | null): AttemptResult => {
    const failure = {
      kind: 'rate_limited',
      status: 429,
      message: 'slow',
      retryAfterSeconds,
    } as const;
    return { kind: 'failed', failure };
  };

  /** Answers each key with its result. Returns what a request to the provider led to. */
  function provider(results: Record<string, AttemptResult>) {
    const clock = { now: 1_000_000 };
    const names = Object.keys(results).filter((name) => name !== 'south');
    const north = withKeys(providerNamed('north'), names);
    const vendors = new Map([
      ['north', north],
      ['south', providerNamed('south')],
    ] as const);
    const offers = new Catalog([model('a/a')], vendors).offers('a/a');
    const health = new Health(() => clock.now);
    const keys = new ProviderKeys(silent, undefined, () => clock.now);
    const states = statesOf(health, keys);
    const send = async () => {
      const attempts: AttemptEntry[] = [];
      const { signal: clientSignal } = new AbortController();
      const used: string[] = [];
      const tryAt = async (offer: Offer, { provider: at }: Offer) => {
        const name = north.keys?.find((key) => key.provider === at)?.name ?? offer.provider.name;
        used.push(name);
        return results[name] ?? answered;
      };
      const openBy = Number.POSITIVE_INFINITY;
      const call = { attempts, clientSignal, ...nobody };
      const opened = await tryOffers(offers, tryAt, states, call, openBy).catch(
        (error: unknown) => error,
      );
      return { opened, used, outcomes: attempts.map(({ outcome }) => outcome) };
    };
    const circuit = () => offers[0] && health.state(offers[0]);
    return { send, results, clock, circuit, keys, north };
  }

  test('uses the next key before the next provider, and skips a key until its Retry-After', async () => {
    const { send, clock, circuit, results } = provider({ a: limited(30), b: answered });
    expect(await send()).toMatchObject({
      opened: { offer: { provider: { name: 'north' } } },
      used: ['a', 'b'],
      outcomes: ['rate_limited', 'answered'],
    });
    for (let i = 0; i < 10; i++) expect((await send()).used).toEqual(['b']);
    expect(circuit()).toBe('closed');
    results.a = answered;
    clock.now += 30_000;
    const used = [await send(), await send()].flatMap((sent) => sent.used);
    expect(used.toSorted()).toEqual(['a', 'b']);
  });

  test('skips a provider whose keys all wait, without opening its circuit', async () => {
    const { send, circuit } = provider({ a: limited(30), b: limited(9) });
    expect((await send()).used).toEqual(['a', 'b', 'south']);
    for (let i = 0; i < 10; i++) expect((await send()).used).toEqual(['south']);
    expect(circuit()).toBe('closed');
  });

  test('opens the circuit of a provider that fails while another key waits', async () => {
    const { send, circuit } = provider({ a: limited(30), b: failed('server') });
    expect((await send()).used).toEqual(['a', 'b', 'south']);
    for (let i = 0; i < 4; i++) await send();
    expect(circuit()).toBe('open');
  });

  test('reports the shortest wait if all keys of all providers are rate limited', async () => {
    const limits = { a: limited(30), b: failed('credential'), c: limited(9) };
    const { send } = provider({ ...limits, south: limited(60) });
    const error = { status: 429, retryAfterSeconds: 9 };
    expect((await send()).opened).toMatchObject(error);
    expect(await send()).toMatchObject({ opened: error, used: ['south'] });
  });

  test('sets a rejected key aside and tries it again after a minute', async () => {
    const { send, clock, keys, north, results } = provider({
      a: failed('credential'),
      b: answered,
    });
    expect((await send()).used).toEqual(['a', 'b']);
    expect((await send()).used).toEqual(['b']);
    expect(keys.statusesOf(north)).toMatchObject([
      { key: { name: 'a' }, state: 'set_aside', retryAfterSeconds: 60, message: 'no' },
      { key: { name: 'b' }, state: 'available' },
    ]);
    const retried = async () => {
      const sent = [await send(), await send(), await send()];
      return sent.flatMap(({ used }) => used).filter((name) => name === 'a').length;
    };
    clock.now += 60_000;
    expect(await retried()).toBe(1);
    // The second wait is twice as long.
    clock.now += 119_000;
    expect(await retried()).toBe(0);
    results.a = answered;
    clock.now += 1_000;
    expect(await retried()).toBeGreaterThan(0);
    expect(keys.statusesOf(north)[0]).toMatchObject({ state: 'available', message: null });
  });

  test('tries one rejected key per request if the provider rejects all keys', async () => {
    const rejected = { a: failed('quota'), b: failed('credential'), south: failed('server') };
    const { send, circuit } = provider(rejected);
    expect((await send()).used).toEqual(['a', 'b', 'south']);
    expect((await send()).used).toHaveLength(2);
    for (let i = 0; i < 3; i++) await send();
    expect(circuit()).toBe('open');
  });

  test('tries the next provider, however many keys the provider rejects', async () => {
    const keys = Array.from({ length: 30 }, (_, i) => [`key${i}`, failed('credential')] as const);
    const { send } = provider(Object.fromEntries(keys));
    const { opened, used } = await send();
    expect([used.length, used.at(-1)]).toEqual([16, 'south']);
    expect(opened).toMatchObject({ offer: { provider: { name: 'south' } } });
  });

  test('tries a key again after 10 minutes, even if its Retry-After is a day', async () => {
    const { send, clock, results } = provider({ a: limited(86_400), b: limited(86_400) });
    expect((await send()).used).toEqual(['a', 'b', 'south']);
    results.a = answered;
    clock.now += 599_999;
    expect((await send()).used).toEqual(['south']);
    clock.now += 1;
    expect((await send()).used.at(-1)).toBe('a');
  });

  test('tries no other key for an invalid request or a broken server', async () => {
    const broken = provider({ a: failed('server'), b: failed('server') });
    expect((await broken.send()).used).toEqual(['a', 'south']);
    const invalid = provider({ a: failed('request'), b: failed('request') });
    expect((await invalid.send()).used).toEqual(['a']);
  });
});
