/**
 * A store that books a named answer and is not heard to say so, or is away: its charge comes by two
 * ways, or after another process has taken its key over.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Caller } from '../../src/core/caller.ts';
import { newRequestId, randomText } from '../../src/core/ids.ts';
import type { IdempotencyClaim } from '../../src/core/recording.ts';
import { Accounting } from '../../src/money/accounting.ts';
import type { Batch, LedgerStore } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { callerOf, settlementOf } from '../support/money/settlements.ts';
import { addCustomer } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const now = Date.now();
const leaseMs = 30_000;
const lost = () => Promise.reject(new Error('The answer was lost.'));

describe.each([...engines])('a charge that comes twice on $name', ({ empty }) => {
  let stores: TwoStores;
  let dataDir = '';
  let caller: Caller;
  let requestId = '';

  beforeAll(async () => {
    stores = await openTwice(empty);
  }, 120_000);
  afterAll(() => stores.close());
  beforeEach(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'tollgate-lost-'));
    const { tenantId } = await addCustomer(stores.one, 10_000);
    caller = callerOf(tenantId, { keyId: randomText(8), limitCredits: 1_000 });
    requestId = newRequestId();
  });
  afterEach(() => rmSync(dataDir, { recursive: true }));

  function openBooks(change: Partial<LedgerStore> = {}, folder = dataDir): Promise<Accounting> {
    const { ledger } = stores.one;
    const store: LedgerStore = {
      lease: (order) => ledger.lease(order),
      returnCredits: (back) => ledger.returnCredits(back),
      renew: (id, until) => ledger.renew(id, until),
      expire: (at, dead) => ledger.expire(at, dead),
      recall: (owner, id) => ledger.recall(owner, id),
      pendingRecalls: (id) => ledger.pendingRecalls(id),
      commit: (batch) => ledger.commit(batch),
      commitWithAnswers: (...words) => ledger.commitWithAnswers(...words),
      ...change,
    };
    const log = createLog(() => undefined);
    const ids = { processId: randomText(8), now: () => now };
    const parts = { store, dataDir: folder, log, ...ids } as const;
    return Accounting.open({ ...parts, durability: 'journal', onEnded: () => undefined });
  }

  const claimOf = (id: string): IdempotencyClaim => {
    return { tenantId: caller.tenantId, key: requestId, fingerprint: 'f', requestId: id };
  };

  /** When the lease of the one before is over, which was made half a minute earlier. */
  const takeOver = (id: string, at: number) => stores.other.claims.claim(claimOf(id), at, leaseMs);

  /** An answer of 70 credits under a key, by an API key with a limit. */
  async function answerWith(books: Accounting, id = requestId, at = now): Promise<string> {
    const claim = claimOf(id);
    expect(await takeOver(id, at)).toEqual({ state: 'ours' });
    return finishWith(books, claim);
  }

  async function finishWith(books: Accounting, claim: IdempotencyClaim): Promise<string> {
    const hold = await books.hold({ caller, receivedAt: now }, { requested: 100, minimum: 100 });
    const ended = settlementOf(claim.requestId, caller, 70, { createdAt: now });
    await books.dispatched(ended.record);
    await hold.settle(70);
    const settlement = { ...ended, keyAccount: hold.keyAccount, keyCharge: 70 };
    return books.saveWithAnswer(
      { claim, recording: null, expiresAt: now + 86_400_000 },
      settlement,
    );
  }

  async function expectChargedOnce(requests = 1): Promise<void> {
    const { read } = stores.other.database;
    const accounts = await read
      .selectFrom('accounts')
      .select(['balance', 'spent'])
      .where('tenant_id', '=', caller.tenantId)
      .orderBy('balance')
      .execute();
    expect(accounts).toEqual([
      { balance: 930, spent: 70 },
      { balance: 9_930, spent: 70 },
    ]);
    const days = await read
      .selectFrom('usage_daily')
      .select(['requests', 'model_charge'])
      .where('key_id', '=', caller.keyId)
      .execute();
    expect(days).toEqual([{ requests, model_charge: 70 }]);
    const { total } = await read
      .selectFrom('request_log')
      .select((of) => of.fn.countAll<number>().as('total'))
      .where('tenant_id', '=', caller.tenantId)
      .executeTakeFirstOrThrow();
    expect(total).toBe(requests);
    expect(await discrepancies(stores.other.database)).toEqual([]);
  }

  test('is booked once when the store had taken it with its answer', async () => {
    const { ledger } = stores.one;
    const books = await openBooks({
      commitWithAnswers: (...words) => ledger.commitWithAnswers(...words).then(lost),
    });
    expect(await answerWith(books)).toBe('unwritten');
    await books.flush();
    expect(books.state()).toMatchObject({ owedCredits: 0, heldCredits: 0 });
    await books.close();
    await expectChargedOnce();
  });

  test('is booked once when the journal’s charge comes first', async () => {
    const { ledger } = stores.one;
    const tries: (() => Promise<never>)[] = [];
    const books = await openBooks({
      commitWithAnswers: (...words) => {
        tries.push(() => ledger.commitWithAnswers(...words).then(lost));
        return lost();
      },
    });
    expect(await answerWith(books)).toBe('unwritten');
    await books.flush();
    const [first = lost, second = lost] = tries;
    expect((await failureOf(first())).message).toMatch(/unique/i);
    // The second knew that it may be a repetition: it ends well, and books nothing.
    expect((await failureOf(second())).message).toBe('The answer was lost.');
    expect(tries).toHaveLength(2);
    await books.close();
    await expectChargedOnce();
  });

  test('is booked once when its process is killed before it could book it', async () => {
    const { ledger } = stores.one;
    let isGone = true;
    const killed = await openBooks({
      commitWithAnswers: (...words) => ledger.commitWithAnswers(...words).then(lost),
      commit: (batch) => (isGone ? lost() : ledger.commit(batch)),
    });
    expect(await answerWith(killed)).toBe('unwritten');
    // Its journal is found by the number of this process, which is now its successor's.
    const next = await openBooks();
    await next.close();
    await expectChargedOnce();
    // It was only taken for dead, and books what it has.
    isGone = false;
    await killed.close();
    await expectChargedOnce();
  });

  test('leaves its key alone when that is in use again a day later', async () => {
    const { ledger } = stores.one;
    const batches: Batch[] = [];
    const commit: LedgerStore['commit'] = (batch) => {
      batches.push(batch);
      return ledger.commit(batch);
    };
    const books = await openBooks({ commitWithAnswers: lost, commit });
    expect(await answerWith(books)).toBe('unwritten');
    await books.close();
    const tomorrow = now + 86_400_000 + leaseMs;
    expect(await takeOver(newRequestId(), tomorrow)).toEqual({ state: 'ours' });
    expect(batches).toHaveLength(1);
    for (const batch of batches) await ledger.commit({ ...batch, mayRepeat: true });
    expect(await takeOver(newRequestId(), tomorrow)).toEqual({ state: 'running' });
    await expectChargedOnce();
  });

  describe('when another process has taken its key over', () => {
    const done = { state: 'done', recording: null } as const;
    let isAway = true;
    let late: Accounting;
    let other: Accounting;
    let otherId = '';

    /** On a machine of its own, whose store is away while it answers. */
    const openCutOff = (machine: string) => {
      const { ledger } = stores.one;
      const commit: LedgerStore['commit'] = (batch) => (isAway ? lost() : ledger.commit(batch));
      return openBooks({ commitWithAnswers: lost, commit }, join(dataDir, machine));
    };

    beforeEach(async () => {
      isAway = true;
      late = await openCutOff('late');
      other = await openBooks({}, join(dataDir, 'other'));
      otherId = newRequestId();
      expect(await answerWith(late)).toBe('unwritten');
    });

    async function bookLate(): Promise<void> {
      isAway = false;
      // A try that began while the store was away may still fail.
      await late.flush().catch(() => late.flush());
    }

    /** Nothing is set aside or owed for either of them any more. */
    async function close(): Promise<void> {
      await bookLate();
      for (const books of [late, other]) {
        await books.flush().catch(() => books.flush());
        expect(books.state()).toMatchObject({ owedCredits: 0, heldCredits: 0 });
        await books.close();
      }
    }

    test('and answered, is free: its row stays and says why', async () => {
      expect(await answerWith(other, otherId, now + leaseMs)).toBe('written');
      await close();
      await expectChargedOnce(2);
      const { requestLog } = stores.other;
      expect(await requestLog.find(caller.tenantId, requestId)).toMatchObject({
        status: 'success',
        charges: noCharges,
        note: expect.stringContaining('Idempotency-Key'),
      });
    });

    test('and still makes an answer, is booked: the other gives none', async () => {
      expect(await takeOver(otherId, now + leaseMs)).toEqual({ state: 'ours' });
      await bookLate();
      expect(await finishWith(other, claimOf(otherId))).toBe('taken_over');
      await close();
      await expectChargedOnce(2);
      expect(await takeOver(newRequestId(), now + 3 * leaseMs)).toEqual(done);
    });

    test('and failed, is booked, and nobody makes an answer after it', async () => {
      expect(await takeOver(otherId, now + leaseMs)).toEqual({ state: 'ours' });
      await stores.other.claims.release(claimOf(otherId));
      await close();
      await expectChargedOnce();
      expect(await takeOver(newRequestId(), now + 3 * leaseMs)).toEqual(done);
    });

    test('and was cut off itself, one of the two is booked', async () => {
      await other.close();
      other = await openCutOff('other');
      expect(await answerWith(other, otherId, now + leaseMs)).toBe('unwritten');
      await close();
      await expectChargedOnce(2);
    });
  });
});
