import { describe, expect, spyOn, test } from 'bun:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { idempotentBytesPerTenantMax, unwrittenLengthMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import type {
  ChargeWriter,
  IdempotencyClaim,
  IdempotentAnswer,
  InFlightEntry,
  Recording,
} from '../core/recording.ts';
import type { ClaimResult, ClaimStore } from './idempotency.ts';
import { Idempotency } from './idempotency.ts';

const connected = new AbortController().signal;

function recording(text: string): Recording {
  const fields = { dialect: 'openai', form: 'reply', model: 'a/b', provider: 'p' };
  return { ...fields, text } as Recording;
}

let requests = 0;
function claim(key: string, fingerprint = 'f', tenantId = 't'): IdempotencyClaim {
  requests += 1;
  return { tenantId, key, fingerprint, requestId: `r${requests}` };
}

/**
 * Like the real store, responds after the faster request has won, without knowing whether both
 * requests are the same.
 */
async function lostRace(): Promise<ClaimResult> {
  await nextTurn();
  return { state: 'running' };
}

/**
 * Stores claims in memory and can be made unreachable. The contract suite tests the real stores.
 */
class MemoryClaims implements ClaimStore {
  isDown = false;
  hangs = false;
  /** A key whose answers the store rejects. */
  rejectedKey = '';
  claimCount = 0;
  readonly written: string[] = [];
  readonly extended: string[] = [];
  #pending = Promise.withResolvers<never>();
  stored: ReadonlyMap<string, number> = new Map();
  readonly rows = new Map<
    string,
    { claim: IdempotencyClaim; done?: Recording | null; until: number }
  >();

  async claim(one: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult> {
    this.claimCount += 1;
    const isNew = !this.rows.has(one.key);
    await this.#reach();
    const row = this.rows.get(one.key);
    if (!row || row.until <= now) {
      this.rows.set(one.key, { claim: one, until: now + leaseMs });
      return { state: 'ours' };
    }
    if (isNew) return lostRace();
    if (row.claim.fingerprint !== one.fingerprint) return { state: 'other_request' };
    return row.done === undefined ? { state: 'running' } : { state: 'done', recording: row.done };
  }

  async extend(claims: readonly IdempotencyClaim[], until: number): Promise<void> {
    await this.#reach();
    for (const { key } of claims) {
      this.extended.push(key);
      const row = this.rows.get(key);
      if (row && row.done === undefined) row.until = until;
    }
  }

  async finish({ claim: one, recording: done, expiresAt }: IdempotentAnswer): Promise<boolean> {
    this.written.push(one.key);
    await this.#reach();
    if (one.key === this.rejectedKey) throw new Error('the store rejects this answer');
    const owner = this.rows.get(one.key)?.claim ?? one;
    const isOwner = owner.requestId === one.requestId;
    if (isOwner) this.rows.set(one.key, { claim: one, done, until: expiresAt });
    return isOwner;
  }

  async release({ key }: IdempotencyClaim): Promise<void> {
    await this.#reach();
    if (this.rows.get(key)?.done === undefined) this.rows.delete(key);
  }

  async removeExpired(now: number): Promise<void> {
    await this.#reach();
    for (const [key, { until }] of this.rows) if (until <= now) this.rows.delete(key);
  }

  async storedBytes(): Promise<ReadonlyMap<string, number>> {
    return this.stored;
  }

  failPending(): void {
    this.hangs = false;
    this.#pending.reject(new Error('the store timed out'));
    this.#pending = Promise.withResolvers<never>();
  }

  async #reach(): Promise<void> {
    // If the database hangs, its driver fails the queries after some time.
    if (this.hangs) await this.#pending.promise;
    if (this.isDown) throw new Error('the store is down');
  }
}

function create(now = () => 0, writeMs = 20) {
  const store = new MemoryClaims();
  const idempotency = new Idempotency(store, now, writeMs);
  const lookUp = (one: IdempotencyClaim, clientSignal = connected, isFit = true) =>
    idempotency.lookUp(one, clientSignal, ({ text }) => (isFit ? text : undefined));
  const [extend, writeShort, writeLong, removeExpired] = idempotency
    .periodicTasks()
    .map(({ run }) => run);
  if (!extend || !writeShort || !writeLong || !removeExpired)
    throw new Error('A periodic task is missing.');
  const writeLate = () => Promise.all([writeShort(), writeLong()]);
  const tasks = { extend, writeShort, writeLong, writeLate, removeExpired };
  return { store, lookUp, ...tasks, close: () => idempotency.close() };
}

type Result = Awaited<ReturnType<ReturnType<typeof create>['lookUp']>>;

function inFlightOf(result: Result): InFlightEntry {
  if ('inFlight' in result) return result.inFlight;
  throw new Error(`Expected an in-flight entry, got ${result.found}.`);
}

async function errorOf(result: Promise<Result>): Promise<GatewayError> {
  const outcome = await result.catch((error: unknown) => error);
  if (outcome instanceof GatewayError) return outcome;
  throw new Error(`Expected an error, got ${JSON.stringify(outcome)}.`);
}

describe('Idempotency with a full quota', () => {
  const almost = idempotentBytesPerTenantMax - 5;

  test('rejects new keys, but still serves used ones', async () => {
    const { store, lookUp, removeExpired } = create();
    store.stored = new Map([['t', almost]]);
    await removeExpired();
    await inFlightOf(await lookUp(claim('last'))).finish(recording('first'));
    const { status, param, message } = await errorOf(lookUp(claim('new')));
    expect([status, param]).toEqual([429, 'Idempotency-Key']);
    expect(message).toContain(`${idempotentBytesPerTenantMax} bytes`);
    expect(await lookUp(claim('last'))).toEqual({ found: 'first' });
    // The rejected claim is deleted, and other tenants have their own quota.
    expect([...store.rows.keys()]).toEqual(['last']);
    inFlightOf(await lookUp(claim('another', 'f', 'another')));
  });

  test('accepts new keys after old answers have expired', async () => {
    const { store, lookUp, removeExpired } = create();
    store.stored = new Map([['t', idempotentBytesPerTenantMax]]);
    await removeExpired();
    await errorOf(lookUp(claim('k')));
    store.stored = new Map([['t', almost]]);
    await removeExpired();
    inFlightOf(await lookUp(claim('k')));
  });
});

test('Idempotency extends a claim until its answer is written', async () => {
  let now = 0;
  const store = new MemoryClaims();
  const idempotency = new Idempotency(store, () => now);
  const [extend, writeLate] = idempotency.periodicTasks();
  if (!extend || !writeLate) throw new Error('A periodic task is missing.');
  await extend.run();
  expect(store.extended).toEqual([]);

  const inFlight = inFlightOf(await idempotency.lookUp(claim('k'), connected, ({ text }) => text));
  now = 20_000;
  await extend.run();
  expect([store.extended, store.rows.get('k')?.until]).toEqual([['k'], 50_000]);
  // Other processes take over after 30 s without an extension, and one extension may fail.
  expect(extend.everyMs).toBeLessThan(15_000);

  store.isDown = true;
  await inFlight.finish(recording('written later'));
  store.isDown = false;
  await extend.run();
  expect(store.extended).toEqual(['k', 'k']);
  await writeLate.run();
  await extend.run();
  expect(store.extended).toEqual(['k', 'k']);
});

test('Idempotency removes an answer after 24 hours', async () => {
  let now = 0;
  const { store, lookUp, removeExpired } = create(() => now);
  await inFlightOf(await lookUp(claim('k'))).finish(recording('of a day'));
  now = 86_399_999;
  await removeExpired();
  expect(store.rows.size).toBe(1);
  now = 86_400_000;
  await removeExpired();
  expect(store.rows.size).toBe(0);
});

describe('Idempotency', () => {
  test.each(['', ' ', 'a b', 'ä', 'tab\t', 'x'.repeat(256)])('rejects the key %j', async (key) => {
    const { store, lookUp } = create();
    const { status, param } = await errorOf(lookUp(claim(key)));
    expect([status, param, store.claimCount]).toEqual([400, 'Idempotency-Key', 0]);
  });

  test('accepts a key of 255 characters', async () => {
    const { lookUp } = create();
    inFlightOf(await lookUp(claim('~'.repeat(255))));
  });

  test('returns the first answer to the same request, and 409 to a different one', async () => {
    const { lookUp } = create();
    await inFlightOf(await lookUp(claim('k'))).finish(recording('first'));
    expect(await lookUp(claim('k'))).toEqual({ found: 'first' });
    const other = await errorOf(lookUp(claim('k', 'another request')));
    expect([other.status, other.param]).toEqual([409, 'Idempotency-Key']);
    expect(other.retryHelps).toBe(false);
    expect(other.message).toContain('different request');
  });

  test('answers only one of 2 different requests that use the same key at the same time', async () => {
    const { lookUp } = create();
    const [first, other] = [lookUp(claim('k')), lookUp(claim('k', 'another request'))];
    const inFlight = inFlightOf(await first);
    const conflict = errorOf(other);
    // By now, the other request has lost the race.
    await nextTurn();
    await inFlight.finish(recording('of the first'));
    const { status, message } = await conflict;
    expect([status, message]).toEqual([409, expect.stringContaining('different request')]);
  });

  test('returns 409 if the answer was not stored or has another format', async () => {
    const { lookUp } = create();
    await inFlightOf(await lookUp(claim('long'))).finish(null);
    expect((await errorOf(lookUp(claim('long')))).message).toContain('too long to store');
    await inFlightOf(await lookUp(claim('odd'))).finish(recording('odd'));
    expect((await errorOf(lookUp(claim('odd'), connected, false))).message).toContain(
      'this format',
    );
  });
});

describe('Idempotency for a repeated request while the first is running', () => {
  test('waits for the answer without querying the store again', async () => {
    const { store, lookUp } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    const repeated = [lookUp(claim('k')), lookUp(claim('k'))];
    await Bun.sleep(5);
    await inFlight.finish(recording('for all'));
    expect(await Promise.all(repeated)).toEqual([{ found: 'for all' }, { found: 'for all' }]);
    expect(store.claimCount).toBe(1);
  });

  test('pauses for 150 ms between 2 queries for a request that another process runs', async () => {
    const { store, lookUp } = create();
    const steps: unknown[] = [];
    const running: ClaimResult = { state: 'running' };
    const results: ClaimResult[] = [running, running];
    const done: ClaimResult = { state: 'done', recording: recording('theirs') };
    store.claim = async () => {
      steps.push('query');
      return results.shift() ?? done;
    };
    using _ = spyOn(Bun, 'sleep').mockImplementation(async (ms) => void steps.push(ms));
    expect(await lookUp(claim('k'))).toEqual({ found: 'theirs' });
    expect(steps).toEqual(['query', 150, 'query', 150, 'query']);
  });

  test('keeps waiting when the clock jumps ahead, and rejects a different request', async () => {
    let now = 0;
    const { lookUp } = create(() => now);
    const inFlight = inFlightOf(await lookUp(claim('k')));
    now = 3_600_000;
    const repeated = lookUp(claim('k'));
    expect((await errorOf(lookUp(claim('k', 'another request')))).status).toBe(409);
    await inFlight.finish(recording('once'));
    expect(await repeated).toEqual({ found: 'once' });
  });

  test('lets one of several repeated requests take over when the first fails', async () => {
    const { lookUp } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    const repeated = [lookUp(claim('k')), lookUp(claim('k'))];
    await Bun.sleep(5);
    await inFlight.release();
    const next = inFlightOf(await Promise.race(repeated));
    await next.finish(recording('second try'));
    const all = await Promise.all(repeated);
    expect(all.filter((one) => 'inFlight' in one)).toHaveLength(1);
    expect(all.filter((one) => 'found' in one)).toEqual([{ found: 'second try' }]);
  });

  test('waits for the request that took over, even if the first is released again', async () => {
    const { store, lookUp } = create();
    const first = inFlightOf(await lookUp(claim('k')));
    await first.release();
    const next = inFlightOf(await lookUp(claim('k')));
    await first.release();
    const repeated = lookUp(claim('k'));
    await next.finish(recording('second try'));
    expect(await repeated).toEqual({ found: 'second try' });
    expect(store.claimCount).toBe(2);
  });

  test('stops waiting when its client disconnects, without affecting the first', async () => {
    const { lookUp } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    const client = new AbortController();
    const repeated = lookUp(claim('k'), client.signal);
    await Bun.sleep(5);
    client.abort();
    expect((await errorOf(repeated)).status).toBe(409);
    await inFlight.finish(recording('unaffected'));
    expect(await lookUp(claim('k'))).toEqual({ found: 'unaffected' });
  });
});

test('Idempotency discards an answer if another request has taken over its key', async () => {
  const { store, lookUp } = create();
  const late = inFlightOf(await lookUp(claim('k')));
  const repeated = lookUp(claim('k'));
  const successor = { claim: claim('k'), done: recording('of the successor'), until: 1 };
  store.rows.set('k', successor);
  const error = await late.finish(recording('late')).catch((failure: unknown) => failure);
  expect(error).toMatchObject({ status: 409, param: 'Idempotency-Key', retryHelps: true });
  expect(store.rows.get('k')).toBe(successor);
  // The waiting request gets the successor's answer.
  expect(await repeated).toEqual({ found: 'of the successor' });
});

describe('Idempotency for an answer with a charge', () => {
  /** A charge that is written together with its answer. */
  const charge = (saveWithAnswer: ChargeWriter['saveWithAnswer']): ChargeWriter => {
    return {
      saveSettlement: () => Promise.reject(new Error('Expected saveWithAnswer.')),
      saveWithAnswer,
    };
  };

  test('leaves writing the answer to the charge writer', async () => {
    const { store, lookUp } = create(() => 5);
    const first = claim('k');
    const saved: IdempotentAnswer[] = [];
    const saveWithAnswer = async (answer: IdempotentAnswer) => {
      saved.push(answer);
      return 'written' as const;
    };
    await inFlightOf(await lookUp(first)).finish(recording('paid for'), charge(saveWithAnswer));
    const expected = { claim: first, recording: recording('paid for'), expiresAt: 86_400_005 };
    expect(saved).toEqual([expected]);
    // It wasn't written a second time.
    expect(store.rows.get('k')?.done).toBeUndefined();
  });

  test('returns the answer to waiting requests only after the charge', async () => {
    const { lookUp } = create();
    const charged = Promise.withResolvers<'unwritten'>();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    let received: unknown;
    const repeated = lookUp(claim('k')).then((found) => {
      received = found;
    });
    const finishing = inFlight.finish(
      recording('paid for'),
      charge(() => charged.promise),
    );
    await Bun.sleep(5);
    expect(received).toBeUndefined();
    charged.resolve('unwritten');
    await Promise.all([finishing, repeated]);
    expect(received).toEqual({ found: 'paid for' });
  });

  test('later writes an answer that could not be written with its charge', async () => {
    const { store, lookUp, writeLate } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    await inFlight.finish(
      recording('paid for'),
      charge(async () => 'unwritten'),
    );
    await writeLate();
    expect(store.rows.get('k')?.done?.text).toBe('paid for');
  });

  test('discards an answer that cannot be charged, and admits the next request', async () => {
    const { store, lookUp, writeLate } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    const repeated = lookUp(claim('k'));
    const failing = charge(() => Promise.reject(new Error('no journal')));
    const error = await inFlight.finish(recording('not paid for'), failing).catch(String);
    expect(error).toContain('no journal');
    await inFlight.release();
    await writeLate();
    await inFlightOf(await repeated).finish(recording('second try'));
    expect(store.rows.get('k')?.done?.text).toBe('second try');
  });
});

describe('Idempotency with an unreachable store', () => {
  test('returns 503 for new keys', async () => {
    const { store, lookUp } = create();
    store.isDown = true;
    const { status, message } = await errorOf(lookUp(claim('k')));
    expect(status).toBe(503);
    expect(message).not.toContain('the store is down');
  });

  test.each(['isDown', 'hangs'] as const)(
    'finishes answers without waiting and writes them later (%s)',
    async (outage) => {
      let now = 0;
      const { store, lookUp, extend, writeLate } = create(() => now);
      const inFlight = inFlightOf(await lookUp(claim('k')));
      store[outage] = true;
      await inFlight.finish(recording('finished meanwhile'));
      const late = writeLate();
      if (outage === 'hangs') store.failPending();
      await late;
      store.isDown = false;
      expect(store.rows.get('k')?.done).toBeUndefined();
      expect(await lookUp(claim('k'))).toEqual({ found: 'finished meanwhile' });
      // The claim stays ours until the answer is written, however long that takes.
      now = 29_000;
      await extend();
      now = 58_000;
      expect(await lookUp(claim('k'))).toEqual({ found: 'finished meanwhile' });
      await writeLate();
      expect(store.rows.get('k')?.done?.text).toBe('finished meanwhile');
    },
  );

  test('writes pending answers before it is closed', async () => {
    const { store, lookUp, close } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    store.isDown = true;
    await inFlight.finish(recording('in time'));
    await close();
    store.isDown = false;
    await close();
    expect(store.rows.get('k')?.done?.text).toBe('in time');
  });

  test('writes other answers if the store rejects one', async () => {
    const { store, lookUp, writeLate } = create();
    const [one, two] = [
      inFlightOf(await lookUp(claim('one'))),
      inFlightOf(await lookUp(claim('two'))),
    ];
    store.isDown = true;
    await Promise.all([one.finish(recording('never')), two.finish(recording('at last'))]);
    store.isDown = false;
    store.rejectedKey = 'one';
    for (let times = 0; times < 2; times++) await writeLate();
    expect(store.rows.get('two')?.done?.text).toBe('at last');
  });

  test('writes short answers while a long one is being written, and writes each once', async () => {
    const { store, lookUp, writeShort, writeLong } = create();
    const [one, two] = [
      inFlightOf(await lookUp(claim('long'))),
      inFlightOf(await lookUp(claim('short'))),
    ];
    store.isDown = true;
    const long = recording('x'.repeat(1_000_000));
    await Promise.all([one.finish(long), two.finish(recording('short'))]);
    store.isDown = false;
    const accepted = Promise.withResolvers<void>();
    const finish = store.finish.bind(store);
    store.written.length = 0;
    store.finish = async (answer) => {
      if (answer.claim.key === 'long') await accepted.promise;
      return finish(answer);
    };
    let isWritten = false;
    const writing = writeLong().then(() => {
      isWritten = true;
    });
    await writeShort();
    expect(store.written).toEqual(['short']);
    // Sleep longer than the write timeout. Late writes have no timeout, because a second attempt
    // would wait for the first.
    await Bun.sleep(60);
    expect(isWritten).toBe(false);
    accepted.resolve();
    await writing;
    expect(store.written).toEqual(['short', 'long']);
  });

  test('extends the claim between 2 attempts to write its answer', async () => {
    const { store, lookUp, writeShort } = create();
    const inFlight = inFlightOf(await lookUp(claim('k')));
    store.rejectedKey = 'k';
    await inFlight.finish(recording('pending'));
    expect(store.extended).toEqual([]);
    await writeShort();
    expect(store.extended).toEqual(['k']);
    store.rejectedKey = '';
    await writeShort();
    expect(store.extended).toEqual(['k']);
    expect(store.rows.get('k')?.done?.text).toBe('pending');
  });

  test('keeps an answer when its claim is released later', async () => {
    const { store, lookUp } = create();
    const answered = inFlightOf(await lookUp(claim('k')));
    await answered.finish(recording('paid for'));
    await answered.release();
    expect(await lookUp(claim('k'))).toEqual({ found: 'paid for' });
    const secondClaim = claim('another');
    const second = inFlightOf(await lookUp(secondClaim));
    const other = recording('written elsewhere');
    await store.finish({ claim: secondClaim, recording: other, expiresAt: 1 });
    await second.release();
    expect(await lookUp(claim('another'))).toEqual({ found: 'written elsewhere' });
  });

  test('keeps an unwritten answer when its claim is released later', async () => {
    const { store, lookUp } = create();
    const answered = inFlightOf(await lookUp(claim('k')));
    store.isDown = true;
    await answered.finish(recording('paid for'));
    store.isDown = false;
    await answered.release();
    expect(await lookUp(claim('k'))).toEqual({ found: 'paid for' });
  });

  test('lets its periodic tasks reject, because they are retried', async () => {
    const { store, lookUp, extend, removeExpired } = create();
    await lookUp(claim('k'));
    store.isDown = true;
    for (const task of [extend, removeExpired]) {
      expect(await task().catch(String)).toContain('the store is down');
    }
  });

  test('drops pending answers above the memory limit, so that they count as lost', async () => {
    const { store, lookUp, writeLate } = create();
    const [one, two] = [
      inFlightOf(await lookUp(claim('one'))),
      inFlightOf(await lookUp(claim('two'))),
    ];
    store.isDown = true;
    await one.finish(recording('x'.repeat(unwrittenLengthMax - 1)));
    const waiting = lookUp(claim('two'));
    await two.finish(recording('xx'));
    expect(await waiting).toEqual({ found: 'xx' });
    expect(await errorOf(lookUp(claim('two')))).toMatchObject({ status: 503 });
    store.isDown = false;
    await writeLate();
    expect(store.rows.get('one')?.done?.text).toHaveLength(unwrittenLengthMax - 1);
    // The store doesn't learn of an answer, so it lets a later request answer again for free.
    expect(store.rows.get('two')?.done).toBeUndefined();
  });

  test.each(['isDown', 'hangs'] as const)(
    'releases a claim without failing or blocking (%s)',
    async (outage) => {
      const { store, lookUp } = create();
      const inFlight = inFlightOf(await lookUp(claim('k')));
      store[outage] = true;
      await inFlight.release();
    },
  );
});
