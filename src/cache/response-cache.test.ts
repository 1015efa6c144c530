import { describe, expect, test } from 'bun:test';
import { cacheFollowersMax } from '../core/bounds.ts';
import type { Recording } from '../core/recording.ts';
import { MemoryCacheStore } from './cache-store.ts';
import type { ChargeWriter, InFlightEntry } from './in-flight-entry.ts';
import { ResponseCache, readDirectives } from './response-cache.ts';

const staying = new AbortController().signal;

function recording(text: string): Recording {
  return { dialect: 'openai', form: 'whole', text, model: 'a/b', provider: 'p' };
}

/** A cache, and requests to it that take any answer unless they say otherwise. */
function make(now: () => number = Date.now) {
  const cache = new ResponseCache(new MemoryCacheStore(1_000_000, now), 60, now);
  const ask = (key: string, header: string | null = null, client = staying, isFit = true) =>
    cache.lookUp(key, readDirectives(header), client, ({ text }) => (isFit ? text : undefined));
  return { cache, ask };
}

type LookUp = Awaited<ReturnType<ReturnType<typeof make>['ask']>>;

function inFlightOf(lookUp: LookUp): InFlightEntry {
  if ('inFlight' in lookUp && lookUp.inFlight) return lookUp.inFlight;
  throw new Error(`No duty, but ${JSON.stringify(lookUp)}.`);
}

/** What has come of a promise by now; 'waits' when nothing has. */
async function soFar<T>(promise: Promise<T>): Promise<T | 'waits'> {
  await Bun.sleep(1);
  return Promise.race([promise, Promise.resolve('waits' as const)]);
}

describe('identical requests at the same time', () => {
  test('wait for the first, and all get what it brings', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const others = [ask('q'), ask('q'), ask('q')];
    expect(await Promise.all(others.map(soFar))).toEqual(['waits', 'waits', 'waits']);
    await lead.finish(recording('once'));
    for (const other of others) expect(await other).toEqual({ found: 'once' });
    expect(await ask('q')).toEqual({ found: 'once' });
  });

  test('get nothing before it is charged, and nothing that cannot be', async () => {
    const { ask } = make();
    const charge = (keep: ChargeWriter['saveSettlement']): ChargeWriter => {
      return {
        saveSettlement: keep,
        saveWithAnswer: () => Promise.reject(new Error('It has no name.')),
      };
    };
    const failing = inFlightOf(await ask('q'));
    const others = [ask('q'), ask('q')];
    const refused = charge(() => Promise.reject(new Error('no journal')));
    const error = await failing.finish(recording('not paid for'), refused).catch(String);
    expect(error).toContain('no journal');
    expect(await Promise.all(others.map(soFar))).toEqual(['waits', 'waits']);
    await failing.release();
    const charged = Promise.withResolvers<void>();
    const second = inFlightOf(await Promise.race(others));
    const finishing = second.finish(
      recording('paid for'),
      charge(() => charged.promise),
    );
    const asked = ask('q');
    expect(await soFar(asked)).toBe('waits');
    charged.resolve();
    await finishing;
    expect(await asked).toEqual({ found: 'paid for' });
  });

  test('get nothing of an answer that was too long to be kept, which is charged', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const other = ask('q');
    let charges = 0;
    const keep = () => void charges++;
    await lead.finish(null, {
      saveSettlement: keep,
      saveWithAnswer: () => Promise.reject(new Error('It has no name.')),
    });
    expect(charges).toBe(1);
    await inFlightOf(await other).finish(recording('shorter'));
    expect(await ask('q')).toEqual({ found: 'shorter' });
  });

  test('do not wait for another question', async () => {
    const { ask } = make();
    inFlightOf(await ask('q'));
    inFlightOf(await ask('another'));
  });

  test('are sent one after the other while none brings anything', async () => {
    const { ask } = make();
    const first = inFlightOf(await ask('q'));
    const [second, third] = [ask('q'), ask('q')];
    await first.release();
    const next = inFlightOf(await second);
    expect(await soFar(third)).toBe('waits');
    await next.finish(recording('at last'));
    expect(await third).toEqual({ found: 'at last' });
  });

  test('wait for two that bring nothing, and then go on their own', async () => {
    const { ask } = make();
    const first = inFlightOf(await ask('q'));
    const [second, third, fourth] = [ask('q'), ask('q'), ask('q')];
    expect(await soFar(fourth)).toBe('waits');
    await first.release();
    const next = inFlightOf(await second);
    const later = ask('q');
    expect(await soFar(third)).toBe('waits');
    await next.release();
    const alone = inFlightOf(await third);
    await inFlightOf(await fourth).finish(recording('at last'));
    expect(await ask('q')).toEqual({ found: 'at last' });
    // The second request that this one waits for brings nothing, but another has brought something.
    expect(await soFar(later)).toBe('waits');
    await alone.release();
    expect(await later).toEqual({ found: 'at last' });
  });

  test('go on without those whose client has left', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const leaving = new AbortController();
    const [gone, here] = [ask('q', null, leaving.signal), ask('q')];
    expect(await soFar(gone)).toBe('waits');
    leaving.abort();
    // Its client has left, so what it does with its duty changes nothing.
    await inFlightOf(await gone).release();
    const later = ask('q');
    expect(await soFar(here)).toBe('waits');
    expect(await soFar(later)).toBe('waits');
    await lead.finish(recording('for those that stayed'));
    expect(await here).toEqual({ found: 'for those that stayed' });
    expect(await later).toEqual({ found: 'for those that stayed' });
  });

  test('do not wait when the client has left before', async () => {
    const { ask } = make();
    inFlightOf(await ask('q'));
    inFlightOf(await ask('q', null, AbortSignal.abort()));
  });

  test('do not wait when too many do already', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const crowd = Array.from({ length: cacheFollowersMax }, () => ask('q'));
    await Bun.sleep(1);
    await inFlightOf(await ask('q')).release();
    expect(await soFar(crowd.at(-1) ?? ask('q'))).toBe('waits');
    await lead.finish(recording('crowded'));
    const answers = await Promise.all(crowd);
    expect(answers.every((answer) => 'found' in answer && answer.found === 'crowded')).toBe(true);
  });

  test('wait in the place of one that has left', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const leaving = new AbortController();
    const gone = ask('q', null, leaving.signal);
    const crowd = Array.from({ length: cacheFollowersMax - 1 }, () => ask('q'));
    await Bun.sleep(1);
    leaving.abort();
    await inFlightOf(await gone).release();
    const next = ask('q');
    expect(await soFar(next)).toBe('waits');
    await lead.finish(recording('crowded'));
    expect(await next).toEqual({ found: 'crowded' });
    expect(await Promise.all(crowd)).toHaveLength(cacheFollowersMax - 1);
  });

  test('of which one cannot use the answer: that one asks for itself', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const picky = ask('q', null, staying, false);
    await Bun.sleep(1); // Until it waits.
    await lead.finish(recording('odd'));
    await inFlightOf(await picky).finish(recording('fits'));
    expect(await ask('q')).toEqual({ found: 'fits' });
  });
});

describe('directives', () => {
  test('no-store neither reads nor keeps, and does not wait', async () => {
    const { ask } = make();
    await inFlightOf(await ask('q')).finish(recording('kept'));
    expect(await ask('q', 'no-store')).toEqual({ inFlight: undefined });
    inFlightOf(await ask('other'));
    expect(await ask('other', 'no-store')).toEqual({ inFlight: undefined });
  });

  test('no-cache makes the answer anew, for those who come later too', async () => {
    const { ask } = make();
    await inFlightOf(await ask('q')).finish(recording('old'));
    await inFlightOf(await ask('q', 'no-cache')).finish(recording('new'));
    expect(await ask('q')).toEqual({ found: 'new' });
  });

  test('no-cache beside a running request does not end that one’s flight', async () => {
    const { ask } = make();
    const lead = inFlightOf(await ask('q'));
    const refresh = inFlightOf(await ask('q', 'no-cache'));
    await refresh.release();
    const follower = ask('q');
    expect(await soFar(follower)).toBe('waits');
    await lead.finish(recording('lead'));
    expect(await follower).toEqual({ found: 'lead' });
  });

  test('max-age wants an answer of that age at most', async () => {
    let now = 100_000;
    const { ask } = make(() => now);
    await inFlightOf(await ask('q')).finish(recording('old'));
    now += 10_000;
    expect(await ask('q', 'max-age=10')).toEqual({ found: 'old' });
    now += 1;
    await inFlightOf(await ask('q', 'max-age=10')).finish(recording('new'));
    expect(await ask('q', 'max-age=0')).toEqual({ found: 'new' });
  });

  test('max-age wants none whose age nobody knows: the clock was set back since', async () => {
    let now = 4_000_000;
    const { ask } = make(() => now);
    await inFlightOf(await ask('q')).finish(recording('old'));
    now -= 3_600_000;
    await inFlightOf(await ask('q', 'max-age=60')).release();
    expect(await ask('q')).toEqual({ found: 'old' });
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
])('%p', (header, wanted) => {
  expect(readDirectives(header)).toEqual(wanted);
});
