/**
 * The confirmation of a charge with an idempotency key can get lost, or the store can be
 * unreachable. The charge is then booked from the journal. By then, another process may have taken
 * over the key.
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
import { unlockJournals } from '../support/money/journal-line.ts';
import { callerOf, settlementOf } from '../support/money/settlements.ts';
import { addCustomer } from './bookings.ts';
import { engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const now = Date.now();
const leaseMs = 30_000;
const lose = () => Promise.reject(new Error('The confirmation was lost.'));

describe.each([...engines])('charges with idempotency keys on $name', ({ empty }) => {
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

  function openAccounting(
    change: Partial<LedgerStore> = {},
    folder = dataDir,
  ): Promise<Accounting> {
    const { ledger } = stores.one;
    const store: LedgerStore = {
      lease: (request) => ledger.lease(request),
      returnCredits: (returned) => ledger.returnCredits(returned),
      renew: (id, until) => ledger.renew(id, until),
      expire: (time, deadProcessId) => ledger.expire(time, deadProcessId),
      recall: (owner, id) => ledger.recall(owner, id),
      pendingRecalls: (id) => ledger.pendingRecalls(id),
      reportHolds: (id, holds) => ledger.reportHolds(id, holds),
      commit: (batch) => ledger.commit(batch),
      commitWithAnswers: (...args) => ledger.commitWithAnswers(...args),
      ...change,
    };
    const log = createLog(() => undefined);
    const ids = { processId: randomText(8), now: () => now };
    const deps = { store, dataDir: folder, log, ...ids } as const;
    return Accounting.open({ ...deps, durability: 'journal', onEnded: () => undefined });
  }

  const claimOf = (id: string): IdempotencyClaim => {
    return { tenantId: caller.tenantId, key: requestId, fingerprint: 'f', requestId: id };
  };

  /** Claims the key after the lease of the previous request has expired. */
  const takeOver = (id: string, time: number) =>
    stores.other.claims.claim(claimOf(id), time, leaseMs);

  /** Settles an answer of 70 credits under an idempotency key and an API key with a limit. */
  async function answerWith(accounting: Accounting, id = requestId, time = now): Promise<string> {
    const claim = claimOf(id);
    expect(await takeOver(id, time)).toEqual({ state: 'ours' });
    return finishWith(accounting, claim);
  }

  async function finishWith(accounting: Accounting, claim: IdempotencyClaim): Promise<string> {
    const hold = await accounting.hold(
      { caller, receivedAt: now },
      { requested: 100, minimum: 100 },
    );
    const ended = settlementOf(claim.requestId, caller, 70, { createdAt: now });
    await accounting.dispatched(ended.record);
    await hold.settle(70);
    const settlement = { ...ended, keyAccount: hold.keyAccount, keyCharge: 70 };
    return accounting.saveWithAnswer(
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
      .select((eb) => eb.fn.countAll<number>().as('total'))
      .where('tenant_id', '=', caller.tenantId)
      .executeTakeFirstOrThrow();
    expect(total).toBe(requests);
    expect(await discrepancies(stores.other.database)).toEqual([]);
  }

  test('are booked once if the store had committed them with their answers', async () => {
    const { ledger } = stores.one;
    const accounting = await openAccounting({
      commitWithAnswers: (...args) => ledger.commitWithAnswers(...args).then(lose),
    });
    expect(await answerWith(accounting)).toBe('unwritten');
    await accounting.flush();
    expect(accounting.state()).toMatchObject({ unbookedCredits: 0, heldCredits: 0 });
    await accounting.close();
    await expectChargedOnce();
  });

  test('are booked once if the journal is booked first', async () => {
    const { ledger } = stores.one;
    const attempts: (() => Promise<never>)[] = [];
    const accounting = await openAccounting({
      commitWithAnswers: (...args) => {
        attempts.push(() => ledger.commitWithAnswers(...args).then(lose));
        return lose();
      },
    });
    expect(await answerWith(accounting)).toBe('unwritten');
    await accounting.flush();
    const [first = lose, second = lose] = attempts;
    // The journal's numbers show that the charge is booked, so they succeed without booking it.
    expect((await failureOf(first())).message).toBe('The confirmation was lost.');
    expect((await failureOf(second())).message).toBe('The confirmation was lost.');
    expect(attempts).toHaveLength(2);
    await accounting.close();
    await expectChargedOnce();
  });

  test('are booked once if their process is killed before it books them', async () => {
    const { ledger } = stores.one;
    let isUnreachable = true;
    const killed = await openAccounting({
      commitWithAnswers: (...args) => ledger.commitWithAnswers(...args).then(lose),
      commit: (batch) => (isUnreachable ? lose() : ledger.commit(batch)),
    });
    expect(await answerWith(killed)).toBe('unwritten');
    // The successor finds the journal by the process ID, which is the same in this test.
    unlockJournals(join(dataDir, 'journal'));
    const next = await openAccounting();
    await next.close();
    await expectChargedOnce();
    // The first process was still alive after all, and now books its charges.
    isUnreachable = false;
    await killed.close();
    await expectChargedOnce();
  });

  test('do not change a key that is in use again a day later', async () => {
    const { ledger } = stores.one;
    const batches: Batch[] = [];
    const commit: LedgerStore['commit'] = (batch) => {
      batches.push(batch);
      return ledger.commit(batch);
    };
    const accounting = await openAccounting({ commitWithAnswers: lose, commit });
    expect(await answerWith(accounting)).toBe('unwritten');
    await accounting.close();
    const tomorrow = now + 86_400_000 + leaseMs;
    expect(await takeOver(newRequestId(), tomorrow)).toEqual({ state: 'ours' });
    expect(batches).toHaveLength(1);
    for (const batch of batches) await ledger.commit({ ...batch, mayRepeat: true });
    expect(await takeOver(newRequestId(), tomorrow)).toEqual({ state: 'running' });
    await expectChargedOnce();
  });

  describe('after another process has taken over the key', () => {
    const paid = { state: 'ours', isPaid: true } as const;
    let isDisconnected = true;
    let late: Accounting;
    let other: Accounting;
    let otherId = '';

    /** Opens the accounting of another machine, which has no connection to the store at first. */
    const openDisconnected = (machine: string) => {
      const { ledger } = stores.one;
      const commit: LedgerStore['commit'] = (batch) =>
        isDisconnected ? lose() : ledger.commit(batch);
      return openAccounting({ commitWithAnswers: lose, commit }, join(dataDir, machine));
    };

    beforeEach(async () => {
      isDisconnected = true;
      late = await openDisconnected('late');
      other = await openAccounting({}, join(dataDir, 'other'));
      otherId = newRequestId();
      expect(await answerWith(late)).toBe('unwritten');
    });

    async function bookLate(): Promise<void> {
      isDisconnected = false;
      // An attempt that started during the outage may still fail.
      await late.flush().catch(() => late.flush());
    }

    /** Closes both processes. Neither may still hold credits or have charges to book. */
    async function close(): Promise<void> {
      await bookLate();
      for (const accounting of [late, other]) {
        await accounting.flush().catch(() => accounting.flush());
        expect(accounting.state()).toMatchObject({ unbookedCredits: 0, heldCredits: 0 });
        await accounting.close();
      }
    }

    test('are dropped if that process answered, with a note in the log', async () => {
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

    test('are booked if that process has no answer yet, and its answer is stored for free', async () => {
      expect(await takeOver(otherId, now + leaseMs)).toEqual({ state: 'ours' });
      await bookLate();
      expect(await finishWith(other, claimOf(otherId))).toBe('written');
      await close();
      await expectChargedOnce(2);
      const { requestLog } = stores.other;
      expect(await requestLog.find(caller.tenantId, otherId)).toMatchObject({
        status: 'success',
        charges: noCharges,
        note: expect.stringContaining('Idempotency-Key'),
      });
      expect(await takeOver(newRequestId(), now + 3 * leaseMs)).toMatchObject({ state: 'done' });
    });

    test('are booked if a different request took over the key, whose answer is discarded', async () => {
      const different = { ...claimOf(otherId), fingerprint: 'different' };
      const taken = await stores.other.claims.claim(different, now + leaseMs, leaseMs);
      expect(taken).toEqual({ state: 'ours' });
      await bookLate();
      expect(await finishWith(other, different)).toBe('taken_over');
      await close();
      await expectChargedOnce(2);
      expect(await takeOver(newRequestId(), now + 3 * leaseMs)).toEqual(paid);
    });

    test('are booked if that process failed, and the request runs again for free', async () => {
      expect(await takeOver(otherId, now + leaseMs)).toEqual({ state: 'ours' });
      await stores.other.claims.release(claimOf(otherId));
      await close();
      await expectChargedOnce();
      expect(await takeOver(newRequestId(), now + 3 * leaseMs)).toEqual(paid);
    });

    test('are booked for only one of the two processes if both were disconnected', async () => {
      await other.close();
      other = await openDisconnected('other');
      expect(await answerWith(other, otherId, now + leaseMs)).toBe('unwritten');
      await close();
      await expectChargedOnce(2);
    });
  });
});
