import { describe, expect, test } from 'bun:test';
import { cacheFollowersMax } from '../core/bounds.ts';
import type { ChargeWriter, InFlightEntry, Recording } from '../core/recording.ts';
import { MemoryCacheStore } from './cache-store.ts';
import { ResponseCache, readDirectives } from './response-cache.ts';

const connected = new AbortController().signal;

function recording(text: string): Recording {
  return { dialect: 'openai', form: 'reply', text, model: 'a/b', provider: 'p' };
}

/** Creates a cache. Its requests accept any recording unless `isFit` is false. */
function create(now: () => number = Date.now, bytesMax = 1_000_000) {
  const cache = new ResponseCache(new MemoryCacheStore(bytesMax, now), 60, now);
  const lookUp = (
    key: string,
    header: string | null = null,
    clientSignal = connected,
    isFit = true,
  ) =>
    cache.lookUp(key, 'tenant', readDirectives(header), clientSignal, ({ text }) =>
      isFit ? text : undefined,
    );
  return { cache, lookUp };
}

type Result = Awaited<ReturnType<ReturnType<typeof create>['lookUp']>>;

function inFlightOf(result: Result): InFlightEntry {
  if ('inFlight' in result && result.inFlight) return result.inFlight;
  throw new Error(`Expected an in-flight entry, got ${JSON.stringify(result)}.`);
}

/** Returns a promise's value, or 'waits' if it is still pending. */
async function soFar<T>(promise: Promise<T>): Promise<T | 'waits'> {
  await Bun.sleep(1);
  return Promise.race([promise, Promise.resolve('waits' as const)]);
}

describe('ResponseCache for identical concurrent requests', () => {
  test('sends only the first one and returns its answer to all', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const others = [lookUp('q'), lookUp('q'), lookUp('q')];
    expect(await Promise.all(others.map(soFar))).toEqual(['waits', 'waits', 'waits']);
    await lead.finish(recording('once'));
    for (const other of others) expect(await other).toEqual({ found: 'once' });
    expect(await lookUp('q')).toEqual({ found: 'once' });
  });

  test('returns no answer before it is charged, or if the charge fails', async () => {
    const { lookUp } = create();
    const charge = (saveSettlement: ChargeWriter['saveSettlement']): ChargeWriter => {
      return {
        saveSettlement,
        saveWithAnswer: () => Promise.reject(new Error('Expected saveSettlement.')),
      };
    };
    const failing = inFlightOf(await lookUp('q'));
    const others = [lookUp('q'), lookUp('q')];
    const failingCharge = charge(() => Promise.reject(new Error('no journal')));
    const error = await failing.finish(recording('not paid for'), failingCharge).catch(String);
    expect(error).toContain('no journal');
    expect(await Promise.all(others.map(soFar))).toEqual(['waits', 'waits']);
    await failing.release();
    const charged = Promise.withResolvers<void>();
    const second = inFlightOf(await Promise.race(others));
    const finishing = second.finish(
      recording('paid for'),
      charge(() => charged.promise),
    );
    const waiting = lookUp('q');
    expect(await soFar(waiting)).toBe('waits');
    charged.resolve();
    await finishing;
    expect(await waiting).toEqual({ found: 'paid for' });
  });

  test('charges an answer that was too long to record and sends the next request', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const other = lookUp('q');
    let charges = 0;
    const saveSettlement = () => void charges++;
    await lead.finish(null, {
      saveSettlement,
      saveWithAnswer: () => Promise.reject(new Error('Expected saveSettlement.')),
    });
    expect(charges).toBe(1);
    await inFlightOf(await other).finish(recording('shorter'));
    expect(await lookUp('q')).toEqual({ found: 'shorter' });
  });

  test('does not make a different request wait', async () => {
    const { lookUp } = create();
    inFlightOf(await lookUp('q'));
    inFlightOf(await lookUp('another'));
  });

  test('sends the next one when the first fails', async () => {
    const { lookUp } = create();
    const first = inFlightOf(await lookUp('q'));
    const [second, third] = [lookUp('q'), lookUp('q')];
    await first.release();
    const next = inFlightOf(await second);
    expect(await soFar(third)).toBe('waits');
    await next.finish(recording('at last'));
    expect(await third).toEqual({ found: 'at last' });
  });

  test('sends all requests that have waited for 2 failed ones', async () => {
    const { lookUp } = create();
    const first = inFlightOf(await lookUp('q'));
    const [second, third, fourth] = [lookUp('q'), lookUp('q'), lookUp('q')];
    expect(await soFar(fourth)).toBe('waits');
    await first.release();
    const next = inFlightOf(await second);
    const later = lookUp('q');
    expect(await soFar(third)).toBe('waits');
    await next.release();
    const alone = inFlightOf(await third);
    await inFlightOf(await fourth).finish(recording('at last'));
    expect(await lookUp('q')).toEqual({ found: 'at last' });
    // The second request that this one waits for fails, but another one has succeeded.
    expect(await soFar(later)).toBe('waits');
    await alone.release();
    expect(await later).toEqual({ found: 'at last' });
  });

  test('is not affected by waiting clients that disconnect', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const client = new AbortController();
    const [disconnected, other] = [lookUp('q', null, client.signal), lookUp('q')];
    expect(await soFar(disconnected)).toBe('waits');
    client.abort();
    // Its client has disconnected, so releasing its entry changes nothing.
    await inFlightOf(await disconnected).release();
    const later = lookUp('q');
    expect(await soFar(other)).toBe('waits');
    expect(await soFar(later)).toBe('waits');
    await lead.finish(recording('for the others'));
    expect(await other).toEqual({ found: 'for the others' });
    expect(await later).toEqual({ found: 'for the others' });
  });

  test('does not make a disconnected client wait', async () => {
    const { lookUp } = create();
    inFlightOf(await lookUp('q'));
    inFlightOf(await lookUp('q', null, AbortSignal.abort()));
  });

  test('sends requests separately when too many are waiting', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const followers = Array.from({ length: cacheFollowersMax }, () => lookUp('q'));
    await Bun.sleep(1);
    await inFlightOf(await lookUp('q')).release();
    expect(await soFar(followers.at(-1) ?? lookUp('q'))).toBe('waits');
    await lead.finish(recording('shared'));
    const answers = await Promise.all(followers);
    expect(answers.every((answer) => 'found' in answer && answer.found === 'shared')).toBe(true);
  });

  test('frees the position of a waiting client that disconnects', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const client = new AbortController();
    const disconnected = lookUp('q', null, client.signal);
    const followers = Array.from({ length: cacheFollowersMax - 1 }, () => lookUp('q'));
    await Bun.sleep(1);
    client.abort();
    await inFlightOf(await disconnected).release();
    const next = lookUp('q');
    expect(await soFar(next)).toBe('waits');
    await lead.finish(recording('shared'));
    expect(await next).toEqual({ found: 'shared' });
    expect(await Promise.all(followers)).toHaveLength(cacheFollowersMax - 1);
  });

  test('sends a request separately if it cannot use the answer', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const picky = lookUp('q', null, connected, false);
    await Bun.sleep(1); // Until it waits.
    await lead.finish(recording('odd'));
    await inFlightOf(await picky).finish(recording('fits'));
    expect(await lookUp('q')).toEqual({ found: 'fits' });
  });
});

describe('ResponseCache', () => {
  test('returns an answer until its lifetime ends', async () => {
    let now = 0;
    const { lookUp } = create(() => now);
    await inFlightOf(await lookUp('q')).finish(recording('stored'));
    now = 59_999;
    expect(await lookUp('q')).toEqual({ found: 'stored' });
    now = 60_000;
    inFlightOf(await lookUp('q'));
  });

  test('returns an answer that is too long for the store only to waiting requests', async () => {
    const { lookUp } = create(() => 0, 100);
    const lead = inFlightOf(await lookUp('q'));
    const waiting = [lookUp('q'), lookUp('q')];
    expect(await Promise.all(waiting.map(soFar))).toEqual(['waits', 'waits']);
    await lead.finish(recording('long'));
    expect(await Promise.all(waiting)).toEqual([{ found: 'long' }, { found: 'long' }]);
    inFlightOf(await lookUp('q'));
  });
});

describe('ResponseCache with Cache-Control', () => {
  test('neither reads, stores, nor waits with no-store', async () => {
    const { lookUp } = create();
    await inFlightOf(await lookUp('q')).finish(recording('stored'));
    expect(await lookUp('q', 'no-store')).toEqual({ inFlight: undefined });
    inFlightOf(await lookUp('other'));
    expect(await lookUp('other', 'no-store')).toEqual({ inFlight: undefined });
  });

  test('replaces the stored answer with no-cache', async () => {
    const { lookUp } = create();
    await inFlightOf(await lookUp('q')).finish(recording('old'));
    await inFlightOf(await lookUp('q', 'no-cache')).finish(recording('new'));
    expect(await lookUp('q')).toEqual({ found: 'new' });
  });

  test('does not replace a request in flight with a no-cache request', async () => {
    const { lookUp } = create();
    const lead = inFlightOf(await lookUp('q'));
    const refresh = inFlightOf(await lookUp('q', 'no-cache'));
    await refresh.release();
    const follower = lookUp('q');
    expect(await soFar(follower)).toBe('waits');
    await lead.finish(recording('lead'));
    expect(await follower).toEqual({ found: 'lead' });
  });

  test('ignores answers older than max-age', async () => {
    let now = 100_000;
    const { lookUp } = create(() => now);
    await inFlightOf(await lookUp('q')).finish(recording('old'));
    now += 10_000;
    expect(await lookUp('q', 'max-age=10')).toEqual({ found: 'old' });
    now += 1;
    await inFlightOf(await lookUp('q', 'max-age=10')).finish(recording('new'));
    expect(await lookUp('q', 'max-age=0')).toEqual({ found: 'new' });
  });

  test('ignores answers of unknown age with max-age after the clock was set back', async () => {
    let now = 4_000_000;
    const { lookUp } = create(() => now);
    await inFlightOf(await lookUp('q')).finish(recording('old'));
    now -= 3_600_000;
    await inFlightOf(await lookUp('q', 'max-age=60')).release();
    expect(await lookUp('q')).toEqual({ found: 'old' });
  });
});

const plain = { mayRead: true, mayWrite: true, maxAgeSeconds: null };

test.each([
  [null, plain],
  ['', plain],
  ['public, no-transform', plain],
  ['no-store', { mayRead: false, mayWrite: false, maxAgeSeconds: null }],
  ['No-Store', { mayRead: false, mayWrite: false, maxAgeSeconds: null }],
  ['no-cache, no-store', { mayRead: false, mayWrite: false, maxAgeSeconds: null }],
  ['no-cache', { mayRead: false, mayWrite: true, maxAgeSeconds: null }],
  ['max-age=60, no-cache', { mayRead: false, mayWrite: true, maxAgeSeconds: null }],
  ['max-age=60', { mayRead: true, mayWrite: true, maxAgeSeconds: 60 }],
  ['MAX-AGE="5"', { mayRead: true, mayWrite: true, maxAgeSeconds: 5 }],
  ['max-age=0', { mayRead: true, mayWrite: true, maxAgeSeconds: 0 }],
  ['max-age=-1', plain],
  ['max-age=1e3', plain],
  ['max-age=9999999999', plain],
  ['x-no-store', plain],
])('readDirectives parses %p', (header, expected) => {
  expect(readDirectives(header)).toEqual(expected);
});
