import { describe, expect, test } from 'bun:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { idempotentBytesPerTenantMax, unwrittenLengthMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import type { IdempotencyClaim, IdempotentAnswer, Recording } from '../core/recording.ts';
import type { ClaimResult, ClaimStore } from './idempotency.ts';
import { Idempotency } from './idempotency.ts';
import type { ChargeWriter, InFlightEntry } from './in-flight-entry.ts';

const staying = new AbortController().signal;

function recording(text: string): Recording {
  const made = { dialect: 'openai', form: 'whole', model: 'a/b', provider: 'p' };
  return { ...made, text } as Recording;
}

let requests = 0;
function claim(key: string, fingerprint = 'f', tenantId = 't'): IdempotencyClaim {
  requests += 1;
  return { tenantId, key, fingerprint, requestId: `r${requests}` };
}

/** Like the real store, tells after the faster request was told, and not whether it is the same. */
async function tooLate(): Promise<ClaimResult> {
  await nextTurn();
  return { state: 'running' };
}

/** Claims in memory, of a store that can be taken away. The contract suite knows the real ones. */
class Claims implements ClaimStore {
  isAway = false;
  hangs = false;
  /** A key whose answer it never takes. */
  refused = '';
  asked = 0;
  readonly written: string[] = [];
  readonly extended: string[] = [];
  #givenUp = Promise.withResolvers<never>();
  stored: ReadonlyMap<string, number> = new Map();
  readonly rows = new Map<
    string,
    { claim: IdempotencyClaim; done?: Recording | null; until: number }
  >();

  async claim(one: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult> {
    this.asked += 1;
    const isNew = !this.rows.has(one.key);
    await this.#reach();
    const row = this.rows.get(one.key);
    if (!row || row.until <= now) {
      this.rows.set(one.key, { claim: one, until: now + leaseMs });
      return { state: 'ours' };
    }
    if (isNew) return tooLate();
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
    if (one.key === this.refused) throw new Error('the store does not take this one');
    const holder = this.rows.get(one.key)?.claim ?? one;
    const isHeld = holder.requestId === one.requestId;
    if (isHeld) this.rows.set(one.key, { claim: one, done, until: expiresAt });
    return isHeld;
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

  giveUp(): void {
    this.hangs = false;
    this.#givenUp.reject(new Error('the store did not answer'));
    this.#givenUp = Promise.withResolvers<never>();
  }

  async #reach(): Promise<void> {
    // A database that hangs is given up by its driver, some time later.
    if (this.hangs) await this.#givenUp.promise;
    if (this.isAway) throw new Error('the store is away');
  }
}

function make(now = () => 0, writeMs = 20) {
  const store = new Claims();
  const idempotency = new Idempotency(store, now, writeMs);
  const ask = (one: IdempotencyClaim, client = staying, isFit = true) =>
    idempotency.lookUp(one, client, ({ text }) => (isFit ? text : undefined));
  const [extend, writeShort, writeLong, tidy] = idempotency.periodicTasks().map(({ run }) => run);
  if (!extend || !writeShort || !writeLong || !tidy) throw new Error('Chores are missing.');
  const writeLate = () => Promise.all([writeShort(), writeLong()]);
  const chores = { extend, writeShort, writeLong, writeLate, tidy };
  return { store, ask, ...chores, close: () => idempotency.close() };
}

type LookUp = Awaited<ReturnType<ReturnType<typeof make>['ask']>>;

function inFlightOf(asked: LookUp): InFlightEntry {
  if ('inFlight' in asked) return asked.inFlight;
  throw new Error(`No duty, but ${asked.found}.`);
}

async function refusalOf(asked: Promise<LookUp>): Promise<GatewayError> {
  const outcome = await asked.catch((error: unknown) => error);
  if (outcome instanceof GatewayError) return outcome;
  throw new Error(`Expected a refusal, got ${JSON.stringify(outcome)}.`);
}

describe('a tenant whose answers fill the store', () => {
  const almost = idempotentBytesPerTenantMax - 5;

  test('is refused new keys, and none that it has used', async () => {
    const { store, ask, tidy } = make();
    store.stored = new Map([['t', almost]]);
    await tidy();
    await inFlightOf(await ask(claim('last'))).finish(recording('first'));
    const { status, param, message } = await refusalOf(ask(claim('new')));
    expect([status, param]).toEqual([429, 'Idempotency-Key']);
    expect(message).toContain(`${idempotentBytesPerTenantMax} bytes`);
    expect(await ask(claim('last'))).toEqual({ found: 'first' });
    // Nothing is left of what was refused, and others have their own room.
    expect([...store.rows.keys()]).toEqual(['last']);
    inFlightOf(await ask(claim('another', 'f', 'another')));
  });

  test('has room again when old answers have expired', async () => {
    const { store, ask, tidy } = make();
    store.stored = new Map([['t', idempotentBytesPerTenantMax]]);
    await tidy();
    await refusalOf(ask(claim('k')));
    store.stored = new Map([['t', almost]]);
    await tidy();
    inFlightOf(await ask(claim('k')));
  });
});

test('an answer is removed when its day is over', async () => {
  let now = 0;
  const { store, ask, tidy } = make(() => now);
  await inFlightOf(await ask(claim('k'))).finish(recording('of a day'));
  now = 86_399_999;
  await tidy();
  expect(store.rows.size).toBe(1);
  now = 86_400_000;
  await tidy();
  expect(store.rows.size).toBe(0);
});

describe('a key', () => {
  test.each(['', ' ', 'a b', 'ä', 'tab\t', 'x'.repeat(256)])('%j is refused', async (key) => {
    const { store, ask } = make();
    const { status, param } = await refusalOf(ask(claim(key)));
    expect([status, param, store.asked]).toEqual([400, 'Idempotency-Key', 0]);
  });

  test('of 255 signs is taken', async () => {
    const { ask } = make();
    inFlightOf(await ask(claim('~'.repeat(255))));
  });

  test('brings the first answer again, and only to the same request', async () => {
    const { ask } = make();
    await inFlightOf(await ask(claim('k'))).finish(recording('first'));
    expect(await ask(claim('k'))).toEqual({ found: 'first' });
    const other = await refusalOf(ask(claim('k', 'another request')));
    expect([other.status, other.param]).toEqual([409, 'Idempotency-Key']);
    expect(other.retryHelps).toBe(false);
    expect(other.message).toContain('different request');
  });

  test('that two different requests bring at once is answered for one of them', async () => {
    const { ask } = make();
    const [first, other] = [ask(claim('k')), ask(claim('k', 'another request'))];
    const inFlight = inFlightOf(await first);
    const refused = refusalOf(other);
    // Now the other one knows that it was too late.
    await nextTurn();
    await inFlight.finish(recording('of the first'));
    const { status, message } = await refused;
    expect([status, message]).toEqual([409, expect.stringContaining('different request')]);
  });

  test('whose answer was not kept, or is of no use, is a conflict', async () => {
    const { ask } = make();
    await inFlightOf(await ask(claim('long'))).finish(null);
    expect((await refusalOf(ask(claim('long')))).message).toContain('too long to be kept');
    await inFlightOf(await ask(claim('odd'))).finish(recording('odd'));
    expect((await refusalOf(ask(claim('odd'), staying, false))).message).toContain('this form');
  });
});

describe('a repetition of a running request', () => {
  test('waits, asks the store no second time, and gets what comes', async () => {
    const { store, ask } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    const repeated = [ask(claim('k')), ask(claim('k'))];
    await Bun.sleep(5);
    await inFlight.finish(recording('for all'));
    expect(await Promise.all(repeated)).toEqual([{ found: 'for all' }, { found: 'for all' }]);
    expect(store.asked).toBe(1);
  });

  test('waits also when the clock jumps ahead, and another request is refused', async () => {
    let now = 0;
    const { ask } = make(() => now);
    const inFlight = inFlightOf(await ask(claim('k')));
    now = 3_600_000;
    const repeated = ask(claim('k'));
    expect((await refusalOf(ask(claim('k', 'another request')))).status).toBe(409);
    await inFlight.finish(recording('once'));
    expect(await repeated).toEqual({ found: 'once' });
  });

  test('takes over when the first brings nothing; one of several', async () => {
    const { ask } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    const repeated = [ask(claim('k')), ask(claim('k'))];
    await Bun.sleep(5);
    await inFlight.release();
    const next = inFlightOf(await Promise.race(repeated));
    await next.finish(recording('second try'));
    const all = await Promise.all(repeated);
    expect(all.filter((one) => 'inFlight' in one)).toHaveLength(1);
    expect(all.filter((one) => 'found' in one)).toEqual([{ found: 'second try' }]);
  });

  test('waits for who took over, though the first gives up a second time', async () => {
    const { store, ask } = make();
    const first = inFlightOf(await ask(claim('k')));
    await first.release();
    const next = inFlightOf(await ask(claim('k')));
    await first.release();
    const repeated = ask(claim('k'));
    await next.finish(recording('second try'));
    expect(await repeated).toEqual({ found: 'second try' });
    expect(store.asked).toBe(2);
  });

  test('ends when its client leaves, and leaves the first alone', async () => {
    const { ask } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    const leaving = new AbortController();
    const repeated = ask(claim('k'), leaving.signal);
    await Bun.sleep(5);
    leaving.abort();
    expect((await refusalOf(repeated)).status).toBe(409);
    await inFlight.finish(recording('undisturbed'));
    expect(await ask(claim('k'))).toEqual({ found: 'undisturbed' });
  });
});

test('an answer that comes after another has taken its key over is not given', async () => {
  const { store, ask } = make();
  const late = inFlightOf(await ask(claim('k')));
  const repeated = ask(claim('k'));
  const heir = { claim: claim('k'), done: recording('the heir’s'), until: 1 };
  store.rows.set('k', heir);
  const error = await late.finish(recording('late')).catch((failure: unknown) => failure);
  expect(error).toMatchObject({ status: 409, param: 'Idempotency-Key', retryHelps: true });
  expect(store.rows.get('k')).toBe(heir);
  // Who waited for it gets the one that counts.
  expect(await repeated).toEqual({ found: 'the heir’s' });
});

describe('an answer with a charge', () => {
  /** One of which the store hears at once with the answer, as far as it is said to. */
  const charge = (keepWith: ChargeWriter['saveWithAnswer']): ChargeWriter => {
    return {
      saveSettlement: () => Promise.reject(new Error('Not by itself.')),
      saveWithAnswer: keepWith,
    };
  };

  test('is written down by who charges it, in one change with that', async () => {
    const { store, ask } = make(() => 5);
    const first = claim('k');
    const given: IdempotentAnswer[] = [];
    const keepWith = async (answer: IdempotentAnswer) => {
      given.push(answer);
      return 'written' as const;
    };
    await inFlightOf(await ask(first)).finish(recording('paid for'), charge(keepWith));
    const expected = { claim: first, recording: recording('paid for'), expiresAt: 86_400_005 };
    expect(given).toEqual([expected]);
    // It was not written a second time beside it.
    expect(store.rows.get('k')?.done).toBeUndefined();
  });

  test('is told to nobody before it is charged', async () => {
    const { ask } = make();
    const charged = Promise.withResolvers<'unwritten'>();
    const inFlight = inFlightOf(await ask(claim('k')));
    let told: unknown;
    const repeated = ask(claim('k')).then((found) => {
      told = found;
    });
    const finishing = inFlight.finish(
      recording('paid for'),
      charge(() => charged.promise),
    );
    await Bun.sleep(5);
    expect(told).toBeUndefined();
    charged.resolve('unwritten');
    await Promise.all([finishing, repeated]);
    expect(told).toEqual({ found: 'paid for' });
  });

  test('that the store did not take with it is written later', async () => {
    const { store, ask, writeLate } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    await inFlight.finish(
      recording('paid for'),
      charge(async () => 'unwritten'),
    );
    await writeLate();
    expect(store.rows.get('k')?.done?.text).toBe('paid for');
  });

  test('that cannot be made is given to nobody: the next makes its own', async () => {
    const { store, ask, writeLate } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    const repeated = ask(claim('k'));
    const failing = charge(() => Promise.reject(new Error('no journal')));
    const error = await inFlight.finish(recording('not paid for'), failing).catch(String);
    expect(error).toContain('no journal');
    await inFlight.release();
    await writeLate();
    await inFlightOf(await repeated).finish(recording('second try'));
    expect(store.rows.get('k')?.done?.text).toBe('second try');
  });
});

describe('a store that is away', () => {
  test('refuses new keys with 503: nobody knows whether they were used', async () => {
    const { store, ask } = make();
    store.isAway = true;
    const { status, message } = await refusalOf(ask(claim('k')));
    expect(status).toBe(503);
    expect(message).not.toContain('the store is away');
  });

  test.each(['isAway', 'hangs'] as const)(
    '(%s) holds up no answer, and hears of it later',
    async (how) => {
      let now = 0;
      const { store, ask, extend, writeLate } = make(() => now);
      const inFlight = inFlightOf(await ask(claim('k')));
      store[how] = true;
      await inFlight.finish(recording('made meanwhile'));
      const late = writeLate();
      if (how === 'hangs') store.giveUp();
      await late;
      store.isAway = false;
      expect(store.rows.get('k')?.done).toBeUndefined();
      expect(await ask(claim('k'))).toEqual({ found: 'made meanwhile' });
      // Until it is written down the claim stays ours, however long that takes.
      now = 29_000;
      await extend();
      now = 58_000;
      expect(await ask(claim('k'))).toEqual({ found: 'made meanwhile' });
      await writeLate();
      expect(store.rows.get('k')?.done?.text).toBe('made meanwhile');
    },
  );

  test('hears of it at the latest before it is closed', async () => {
    const { store, ask, close } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    store.isAway = true;
    await inFlight.finish(recording('in time'));
    await close();
    store.isAway = false;
    await close();
    expect(store.rows.get('k')?.done?.text).toBe('in time');
  });

  test('hears of the others when there is one that it never takes', async () => {
    const { store, ask, writeLate } = make();
    const [one, two] = [inFlightOf(await ask(claim('one'))), inFlightOf(await ask(claim('two')))];
    store.isAway = true;
    await Promise.all([one.finish(recording('never')), two.finish(recording('at last'))]);
    store.isAway = false;
    store.refused = 'one';
    for (let times = 0; times < 2; times++) await writeLate();
    expect(store.rows.get('two')?.done?.text).toBe('at last');
  });

  test('hears of short ones while it takes a long one, and of that only once', async () => {
    const { store, ask, writeShort, writeLong } = make();
    const [one, two] = [
      inFlightOf(await ask(claim('long'))),
      inFlightOf(await ask(claim('short'))),
    ];
    store.isAway = true;
    const long = recording('x'.repeat(1_000_000));
    await Promise.all([one.finish(long), two.finish(recording('short'))]);
    store.isAway = false;
    const taken = Promise.withResolvers<void>();
    const finish = store.finish.bind(store);
    store.written.length = 0;
    store.finish = async (answer) => {
      if (answer.claim.key === 'long') await taken.promise;
      return finish(answer);
    };
    let isTaken = false;
    const writing = writeLong().then(() => {
      isTaken = true;
    });
    await writeShort();
    expect(store.written).toEqual(['short']);
    // For longer than an answer waits for the store: another try would wait behind this one.
    await Bun.sleep(60);
    expect(isTaken).toBe(false);
    taken.resolve();
    await writing;
    expect(store.written).toEqual(['short', 'long']);
  });

  test('hears between two tries that the claim is still ours', async () => {
    const { store, ask, writeShort } = make();
    const inFlight = inFlightOf(await ask(claim('k')));
    store.refused = 'k';
    await inFlight.finish(recording('not taken yet'));
    expect(store.extended).toEqual([]);
    await writeShort();
    expect(store.extended).toEqual(['k']);
    store.refused = '';
    await writeShort();
    expect(store.extended).toEqual(['k']);
    expect(store.rows.get('k')?.done?.text).toBe('not taken yet');
  });

  test('takes back nothing that was answered', async () => {
    const { store, ask } = make();
    const answered = inFlightOf(await ask(claim('k')));
    await answered.finish(recording('paid for'));
    await answered.release();
    expect(await ask(claim('k'))).toEqual({ found: 'paid for' });
    const second = claim('another');
    const unsure = inFlightOf(await ask(second));
    const beside = recording('written beside it');
    await store.finish({ claim: second, recording: beside, expiresAt: 1 });
    await unsure.release();
    expect(await ask(claim('another'))).toEqual({ found: 'written beside it' });
  });

  test('takes back nothing that it has not heard of yet', async () => {
    const { store, ask } = make();
    const answered = inFlightOf(await ask(claim('k')));
    store.isAway = true;
    await answered.finish(recording('paid for'));
    store.isAway = false;
    await answered.release();
    expect(await ask(claim('k'))).toEqual({ found: 'paid for' });
  });

  test('fails the chores that need it: they are told, and tried again', async () => {
    const { store, ask, extend, tidy } = make();
    await ask(claim('k'));
    store.isAway = true;
    for (const chore of [extend, tidy]) {
      expect(await chore().catch(String)).toContain('the store is away');
    }
  });

  test('is not waited for by more text than there is room for', async () => {
    const { store, ask, writeLate } = make();
    const [one, two] = [inFlightOf(await ask(claim('one'))), inFlightOf(await ask(claim('two')))];
    store.isAway = true;
    await one.finish(recording('x'.repeat(unwrittenLengthMax - 1)));
    const waiting = ask(claim('two'));
    await two.finish(recording('xx'));
    expect(await waiting).toEqual({ found: 'xx' });
    // Nor is it kept for those who come now: that is what there is no room for.
    expect(await refusalOf(ask(claim('two')))).toMatchObject({ status: 409 });
    store.isAway = false;
    await writeLate();
    expect(store.rows.get('one')?.done?.text).toHaveLength(unwrittenLengthMax - 1);
    expect(store.rows.get('two')?.done).toBeNull();
  });

  test.each(['isAway', 'hangs'] as const)(
    'does not make a failed request fail twice, nor keep it from its charge: %s',
    async (how) => {
      const { store, ask } = make();
      const inFlight = inFlightOf(await ask(claim('k')));
      store[how] = true;
      await inFlight.release();
    },
  );
});
