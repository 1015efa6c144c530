import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { randomText } from '../../src/core/ids.ts';
import { logText } from '../../src/core/text.ts';
import type { LeaseRequest, Settlement } from '../../src/money/ledger.ts';
import { keyOwner, type Owner, toSettlementEntry, walletOwner } from '../../src/money/ledger.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { callerOf, settlementOf } from '../support/money/settlements.ts';
import { engines, makeTenant, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

/** Long enough ago that nothing else expires with it. */
const soon = 1_000;
const later = 2_000_000_000_000;
const newId = () => crypto.randomUUID();

describe.each(engines.map((engine) => ({ ...engine })))('the ledger on $name', ({ empty }) => {
  let stores: TwoStores;
  let orders = 0;

  beforeAll(async () => {
    stores = await openTwice(empty);
  }, 120_000);
  afterAll(async () => {
    expect(await discrepancies(stores.one.database)).toEqual([]);
    await stores.close();
  });

  async function tenantWith(credits: number): Promise<string> {
    const { id } = await addTenant();
    if (credits === 0) return id;
    const grant = { tenantId: id, amount: credits, note: '', idempotencyKey: null, now: 1 };
    await stores.one.creditStore.change(grant);
    return id;
  }

  async function addTenant() {
    const tenant = makeTenant();
    await stores.one.directory.addTenant(tenant);
    return tenant;
  }

  /** Exactly what is asked for, unless `oneHold` invites more. */
  function order(owner: Owner, change: Partial<LeaseRequest> = {}): LeaseRequest {
    const plain = {
      processId: 'p1',
      startNew: false,
      credits: 10,
      oneHold: 0,
      until: later,
      now: 1,
    };
    return { owner, number: ++orders, ...plain, ...change };
  }

  const lease = (owner: Owner, change: Partial<LeaseRequest> = {}) =>
    stores.one.ledger.lease(order(owner, change));

  async function account(owner: Owner) {
    return stores.one.database.read
      .selectFrom('accounts')
      .select(['balance', 'leased', 'granted', 'spent'])
      .where('owner', '=', owner.name)
      .executeTakeFirst();
  }

  const commit = (settlements: readonly Settlement[], change = {}) =>
    stores.one.ledger.commit({
      processId: 'p1',
      entries: settlements.map(toSettlementEntry),
      mayRepeat: false,
      now: 2,
      ...change,
    });

  describe('leases', () => {
    test('give what is asked for and a share of the rest in whole holds', async () => {
      const wallet = walletOwner(await tenantWith(1_000));
      expect(await lease(wallet, { credits: 100, oneHold: 100 })).toMatchObject({ granted: 200 });
      // An eighth of the 700 left would be 87: less than one hold more.
      expect(await lease(wallet, { credits: 100, oneHold: 100 })).toMatchObject({ granted: 100 });
      expect(await account(wallet)).toMatchObject({ balance: 1_000, leased: 300 });
      // Of the 695 beside it, an eighth in whole credits.
      expect(await lease(wallet, { credits: 5, oneHold: 1 })).toMatchObject({ granted: 91 });
    });

    test('give the last credit and not one more', async () => {
      const wallet = walletOwner(await tenantWith(25));
      const granted = [];
      for (let i = 0; i < 4; i++) granted.push((await lease(wallet)).granted);
      expect(granted).toEqual([10, 10, 5, 0]);
    });

    test('of two processes at once never exceed the balance', async () => {
      const wallet = walletOwner(await tenantWith(995));
      const asking = Array.from({ length: 120 }, (_, i) => {
        const { ledger } = i % 2 === 0 ? stores.one : stores.other;
        return ledger.lease(order(wallet, { processId: i % 2 === 0 ? 'p1' : 'p2' }));
      });
      const answers = await Promise.all(asking);
      expect(answers.reduce((sum, { granted }) => sum + granted, 0)).toBe(995);
      expect(await account(wallet)).toMatchObject({ balance: 995, leased: 995 });
    });

    test('of a tenant that nobody knows are empty', async () => {
      const answer = await lease(walletOwner('ten_nobody'));
      expect(answer).toMatchObject({ granted: 0, outsideLease: 0, leasedElsewhere: 0 });
    });

    test('tell what the account has outside the lease, with others or with nobody', async () => {
      const wallet = walletOwner(await tenantWith(100));
      expect(await lease(wallet, { credits: 30 })).toMatchObject({ outsideLease: 70 });
      expect(await lease(wallet, { credits: 20, processId: 'p2' })).toMatchObject({
        outsideLease: 80,
      });
      expect(await lease(wallet, { credits: 5 })).toMatchObject({ outsideLease: 65 });
      const looked = await lease(wallet, { credits: 0, oneHold: 0 });
      expect(looked).toMatchObject({ granted: 0, outsideLease: 65 });
      const startNew = await lease(wallet, { credits: 40, startNew: true });
      expect(startNew).toMatchObject({ granted: 40, outsideLease: 60 });
    });

    test('keep the number of the order that began them', async () => {
      const wallet = walletOwner(await tenantWith(100));
      const first = await lease(wallet, { number: 71 });
      const second = await lease(wallet, { number: 72 });
      expect([first.lease, second.lease]).toEqual([71, 71]);
    });

    test('that begin startNew replace what the process had', async () => {
      const wallet = walletOwner(await tenantWith(100));
      await lease(wallet, { credits: 90 });
      const startNew = await lease(wallet, { credits: 95, startNew: true, number: 8_000 });
      expect(startNew).toMatchObject({ granted: 95, lease: 8_000 });
      expect(await account(wallet)).toMatchObject({ leased: 95 });
      await lease(wallet, { credits: 0, startNew: true });
      expect(await account(wallet)).toMatchObject({ leased: 0 });
    });

    test('that begin startNew where there was none give the last credit and not one more', async () => {
      const wallet = walletOwner(await tenantWith(100));
      const startNew = await lease(wallet, { credits: 150, startNew: true });
      expect(startNew).toMatchObject({ granted: 100, leasedElsewhere: 0 });
      expect(await account(wallet)).toMatchObject({ balance: 100, leased: 100 });
    });

    test('take credits back, but not into a lease that has ended', async () => {
      const wallet = walletOwner(await tenantWith(100));
      const { lease: number } = await lease(wallet, { credits: 50 });
      const back = { processId: 'p1', owner: wallet.name, lease: number, credits: 20 };
      await stores.one.ledger.returnCredits(back);
      expect(await account(wallet)).toMatchObject({ leased: 30 });
      await lease(wallet, { credits: 40, startNew: true });
      await stores.one.ledger.returnCredits(back);
      expect(await account(wallet)).toMatchObject({ leased: 40 });
    });

    test('end when they are not renewed, and those that are go on', async () => {
      const wallet = walletOwner(await tenantWith(100));
      await lease(wallet, { processId: 'quiet', until: soon });
      await lease(wallet, { processId: 'lively', until: soon });
      expect(await stores.one.ledger.renew('lively', later)).toEqual(new Set([wallet.name]));
      await stores.other.ledger.expire(soon + 1);
      expect(await account(wallet)).toMatchObject({ leased: 10 });
      expect(await stores.one.ledger.renew('quiet', later)).toEqual(new Set());
      expect(await stores.one.ledger.renew('lively', later)).toEqual(new Set([wallet.name]));
    });

    test('end also where nobody else has one', async () => {
      const wallet = walletOwner(await tenantWith(100));
      await lease(wallet, { processId: 'alone', until: soon });
      await stores.other.ledger.expire(soon + 1);
      expect(await account(wallet)).toMatchObject({ balance: 100, leased: 0 });
    });

    test('that are empty end with the next renewal, and credits are leased again', async () => {
      const wallet = walletOwner(await tenantWith(100));
      const processId = randomText(8);
      const { lease: number, granted } = await lease(wallet, { processId, number: 1 });
      const given = { processId, owner: wallet.name, lease: number, credits: granted };
      await stores.one.ledger.returnCredits(given);
      // Another's renewal does not touch it.
      await stores.one.ledger.renew('another', later);
      expect(await lease(wallet, { processId, credits: 0 })).toMatchObject({ lease: number });
      expect(await stores.one.ledger.renew(processId, later)).toEqual(new Set());
      expect(await account(wallet)).toMatchObject({ balance: 100, leased: 0 });
      expect(await lease(wallet, { processId, number: 2 })).toMatchObject({ granted, lease: 2 });
      // What comes late of the lease before does not touch this one.
      await stores.one.ledger.returnCredits(given);
      expect(await account(wallet)).toMatchObject({ leased: granted });
      expect(await stores.one.ledger.renew(processId, later)).toEqual(new Set([wallet.name]));
    });

    test('of a process known to be dead end at once, and no others by any clock', async () => {
      const wallet = walletOwner(await tenantWith(100));
      await lease(wallet, { processId: 'dead' });
      await lease(wallet, { processId: 'alive', until: soon });
      await stores.one.ledger.expire(soon + 1, 'dead');
      expect(await account(wallet)).toMatchObject({ leased: 10 });
    });
  });

  describe('recalls', () => {
    test('are heard by everybody else who has credits, until they are answered', async () => {
      const wallet = walletOwner(await tenantWith(30));
      const [rich, poor] = [randomText(8), randomText(8)];
      const { lease: number } = await lease(wallet, { processId: rich, credits: 30 });
      const starved = await lease(wallet, { processId: poor });
      expect(starved).toMatchObject({ granted: 0, leasedElsewhere: 30 });
      expect(await stores.one.ledger.pendingRecalls(rich)).toEqual([]);

      await stores.one.ledger.recall(wallet.name, poor);
      expect(await stores.other.ledger.pendingRecalls(rich)).toEqual([wallet.name]);
      expect(await stores.other.ledger.pendingRecalls(poor)).toEqual([]);
      const waiting = await lease(wallet, { processId: poor });
      expect(waiting).toMatchObject({ granted: 0, unanswered: 30 });

      const back = { processId: rich, owner: wallet.name, lease: number, credits: 4 };
      await stores.one.ledger.returnCredits(back);
      expect(await stores.other.ledger.pendingRecalls(rich)).toEqual([]);
      const answered = await lease(wallet, { processId: poor });
      expect(answered).toMatchObject({ granted: 4, leasedElsewhere: 26, unanswered: 0 });
    });

    test('of one account leave those of another to be heard', async () => {
      const [first, second] = [await tenantWith(1), await tenantWith(1)].map(walletOwner);
      if (!first || !second) throw new Error('Two wallets are missing.');
      const process = randomText(8);
      for (const wallet of [first, second]) await lease(wallet, { processId: process });
      await stores.one.ledger.recall(first.name, 'poor');
      // It starves itself on the other one.
      await stores.one.ledger.recall(second.name, process);
      expect(await stores.other.ledger.pendingRecalls(process)).toEqual([first.name]);
    });

    test('are answered also by who has nothing to give', async () => {
      const wallet = walletOwner(await tenantWith(10));
      const process = randomText(8);
      const { lease: number } = await lease(wallet, { processId: process });
      await stores.one.ledger.recall(wallet.name, 'poor');
      const nothing = { processId: process, owner: wallet.name, lease: number, credits: 0 };
      await stores.one.ledger.returnCredits(nothing);
      expect(await lease(wallet, { processId: 'poor' })).toMatchObject({ unanswered: 0 });
    });
  });

  describe('key limits', () => {
    const limited = (tenantId: string, limitCredits: number, keyId = randomText(8)): Owner => {
      const owner = keyOwner(callerOf(tenantId, { keyId, limitCredits }), 1);
      if (!owner) throw new Error('A key with a limit has an account.');
      return owner;
    };

    test('are granted with the first lease, once, also to two processes at once', async () => {
      const key = limited(await tenantWith(0), 25);
      const both = [stores.one, stores.other].map(({ ledger }, i) =>
        ledger.lease(order(key, { processId: `p${i}`, credits: 20 })),
      );
      const granted = (await Promise.all(both)).map((answer) => answer.granted);
      expect(granted.toSorted()).toEqual([20, 5]);
      expect(await account(key)).toEqual({ balance: 25, leased: 25, granted: 25, spent: 0 });
      await lease(key);
      const entries = await stores.one.database.read
        .selectFrom('ledger_entries')
        .innerJoin('accounts', 'accounts.id', 'account_id')
        .select(['kind', 'amount'])
        .where('owner', '=', key.name)
        .execute();
      expect(entries).toEqual([{ kind: 'allowance', amount: 25 }]);
    });

    test('that are raised give more; lowered, they take back only what is free', async () => {
      const tenant = await tenantWith(0);
      const keyId = randomText(8);
      const key = limited(tenant, 50, keyId);
      await lease(key, { credits: 30 });
      await lease(limited(tenant, 80, keyId), { credits: 0 });
      expect(await account(key)).toMatchObject({ balance: 80, leased: 30 });
      const lowered = await lease(limited(tenant, 10, keyId));
      expect(lowered.granted).toBe(0);
      expect(await account(key)).toMatchObject({ balance: 30, leased: 30, granted: 30 });
    });

    test('never fall below what was spent', async () => {
      const tenant = await tenantWith(100);
      const key = limited(tenant, 50, 'k');
      await lease(key, { credits: 40 });
      await lease(walletOwner(tenant), { credits: 40 });
      const spent = { ...settlementOf(newId(), { tenantId: tenant, keyId: 'k' }, 40) };
      await commit([{ ...spent, keyAccount: key.name, keyCharge: 40 }]);
      await lease(limited(tenant, 5, 'k'));
      expect(await account(key)).toEqual({ balance: 0, leased: 0, granted: 40, spent: 40 });
      await lease(limited(tenant, 60, 'k'), { credits: 0 });
      expect(await account(key)).toMatchObject({ balance: 20, granted: 60 });
    });

    test('pay their own part, which may be less than the wallet paid', async () => {
      const tenant = await tenantWith(100);
      const key = limited(tenant, 50);
      const beyond = settlementOf(newId(), { tenantId: tenant, keyId: 'beyond' }, 40);
      await lease(key, { credits: 25 });
      await commit([{ ...beyond, keyAccount: key.name, keyCharge: 25 }]);
      expect(await account(key)).toMatchObject({ balance: 25, leased: 0, spent: 25 });
      expect(await account(walletOwner(tenant))).toMatchObject({ balance: 60, spent: 40 });
    });

    test('are not paid out of what another process has on lease', async () => {
      const tenant = await tenantWith(100);
      const key = limited(tenant, 10);
      await lease(key, { processId: 'other', credits: 6 });
      const late = settlementOf(newId(), { tenantId: tenant, keyId: 'late' }, 8);
      await commit([{ ...late, keyAccount: key.name, keyCharge: 8 }]);
      expect(await account(key)).toMatchObject({ balance: 6, leased: 6, spent: 4 });
      expect(await account(walletOwner(tenant))).toMatchObject({ balance: 92, spent: 8 });
    });
  });

  describe('commits', () => {
    const settled = (tenantId: string, charge: number, id = newId()) =>
      settlementOf(id, { tenantId, keyId: 'key_1' }, charge);

    test('take charges out of the lease, one entry per account', async () => {
      const tenant = await tenantWith(100);
      const wallet = walletOwner(tenant);
      const { lease: number } = await lease(wallet, { credits: 60 });
      const booked = await commit([settled(tenant, 10), settled(tenant, 15), settled(tenant, 0)]);
      expect(booked).toEqual([
        { account: wallet.name, charge: 25, fromLease: { lease: number, credits: 25 } },
      ]);
      expect(await account(wallet)).toEqual({ balance: 75, leased: 35, granted: 100, spent: 25 });
      const entries = await stores.one.database.read
        .selectFrom('ledger_entries')
        .innerJoin('accounts', 'accounts.id', 'account_id')
        .select(['kind', 'amount', 'balance_after'])
        .where('owner', '=', wallet.name)
        .where('kind', '=', 'charge')
        .execute();
      expect(entries).toEqual([{ kind: 'charge', amount: -25, balance_after: 75 }]);
    });

    test('of a single credit take it out of the lease as well', async () => {
      const tenant = await tenantWith(10);
      const wallet = walletOwner(tenant);
      await lease(wallet, { processId: 'one', credits: 2 });
      await commit([settled(tenant, 1)], { processId: 'one' });
      expect(await account(wallet)).toMatchObject({ balance: 9, leased: 1, spent: 1 });
      // All that the process has left, and the account with it.
      await stores.one.ledger.expire(1, 'one');
      expect(await account(wallet)).toMatchObject({ balance: 9, leased: 0 });
    });

    test('without a lease take what is free and write off the rest, visibly', async () => {
      const tenant = await tenantWith(100);
      await lease(walletOwner(tenant), { processId: 'other', credits: 70 });
      const [first, last] = [settled(tenant, 20), settled(tenant, 25)];
      const booked = await commit([first, last]);
      expect(booked).toMatchObject([{ charge: 45, fromLease: { credits: 0 } }]);
      // What the other process has on lease is not touched.
      expect(await account(walletOwner(tenant))).toMatchObject({ balance: 70, leased: 70 });
      const record = await stores.one.requestLog.find(tenant, last.record.requestId);
      expect(record?.charges.modelCharge).toBe(10);
      expect(record?.note).toBe('15 credits were written off because the wallet was empty.');
      const intact = await stores.one.requestLog.find(tenant, first.record.requestId);
      expect(intact).toMatchObject({ charges: { modelCharge: 20 }, note: null });
    });

    test('of a tenant without a wallet write everything off', async () => {
      const settlement = settled('ten_without_wallet', 30);
      await commit([settlement]);
      const { requestId } = settlement.record;
      const record = await stores.one.requestLog.find('ten_without_wallet', requestId);
      expect(record?.charges.modelCharge).toBe(0);
    });

    test('that are repeated book what is new and nothing twice', async () => {
      const tenant = await tenantWith(100);
      const wallet = walletOwner(tenant);
      await lease(wallet, { credits: 60 });
      const [first, second] = [settled(tenant, 10), settled(tenant, 20)];
      await commit([first]);
      const again = await commit([first, second], { mayRepeat: true });
      expect(await account(wallet)).toMatchObject({ balance: 70, leased: 30 });
      // Nobody knows where the first commit took its credits from; the process must ask.
      expect(again.filter(({ fromLease }) => fromLease === null)).toMatchObject([
        { account: wallet.name, charge: 10 },
      ]);
    });

    test('of answers that cost nothing leave the wallet’s history as it was', async () => {
      const tenant = await tenantWith(100);
      await commit([settled(tenant, 0)]);
      const entries = await stores.one.database.read
        .selectFrom('ledger_entries')
        .innerJoin('accounts', 'accounts.id', 'account_id')
        .select('kind')
        .where('owner', '=', walletOwner(tenant).name)
        .execute();
      expect(entries).toEqual([{ kind: 'grant' }]);
    });

    test('take nothing from an account of which they have only repetitions', async () => {
      const [tenant, other] = [await tenantWith(100), await tenantWith(100)];
      const first = settled(tenant, 10);
      await commit([first]);
      await commit([first, settled(other, 20)], { mayRepeat: true });
      expect(await account(walletOwner(tenant))).toMatchObject({ balance: 90, spent: 10 });
      expect(await account(walletOwner(other))).toMatchObject({ balance: 80, spent: 20 });
    });

    test('of one journal by two processes at the same time are one', async () => {
      const tenant = await tenantWith(10_000);
      await lease(walletOwner(tenant), { processId: 'dead', credits: 10_000 });
      const entries = Array.from({ length: 40 }, () => toSettlementEntry(settled(tenant, 7)));
      const batch = { processId: 'dead', entries, mayRepeat: true, now: 3 };
      await Promise.all([stores.one.ledger.commit(batch), stores.other.ledger.commit(batch)]);
      expect(await account(walletOwner(tenant))).toMatchObject({ balance: 10_000 - 280 });
    });

    test('are all or nothing', async () => {
      const tenant = await tenantWith(100);
      const wallet = walletOwner(tenant);
      await lease(wallet, { credits: 60 });
      const twice = settled(tenant, 10);
      await commit([twice]);
      expect(await failureOf(commit([settled(tenant, 5), twice]))).toBeInstanceOf(Error);
      expect(await account(wallet)).toMatchObject({ balance: 90, leased: 50, spent: 10 });
    });

    test('are nothing where the sums of the day cannot be written', async () => {
      const tenant = await tenantWith(100);
      const last = settled(tenant, 5);
      const { schema } = stores.one.database.write;
      await schema.alterTable('usage_daily').renameTo('usage_hidden').execute();
      const failure = await failureOf(commit([last]));
      await schema.alterTable('usage_hidden').renameTo('usage_daily').execute();
      expect(failure.message).toContain('usage_daily');
      expect(await account(walletOwner(tenant))).toMatchObject({ balance: 100, spent: 0 });
      expect(await stores.one.requestLog.findForAnyTenant(last.record.requestId)).toBeUndefined();
    });

    test.each<[string, Partial<RequestRecord>]>([
      ['plain', {}],
      [
        'with nothing left out',
        {
          operation: 'speech',
          jobId: 'job_1',
          model: 'acme/other',
          status: 'error',
          error: 'upstream_error',
          trafficMode: 'byok',
          usage: {
            inputTokens: 1,
            inputAudioTokens: 7,
            cacheReadTokens: 2,
            cacheWriteTokens: 3,
            cacheWrite1hTokens: 6,
            outputTokens: 4,
            reasoningTokens: 5,
          },
          usageEstimated: true,
          charges: { modelCharge: 6, byokPlatformFee: 7, managedToolFee: 8, agentRuntimeFee: 9 },
          prices: { prompt: '0.1' },
          searches: 10,
          skills: ['one', 'two'],
          note: 'A “note”.',
          finishReason: 'length',
          streamed: true,
          cancelled: true,
          cacheHit: true,
          firstByteMs: 0,
          durationMs: 11,
          endUser: 'user-1',
          attempts: [
            { provider: 'a', model: 'b', outcome: 'c', status: null, message: 'd', ms: 12 },
          ],
          createdAt: 1_800_000_000_001,
        },
      ],
      ['with one of each', { skills: ['one'], units: { inputImages: 1, audioMs: 0.5 } }],
      [
        'of a request that nobody answered',
        { model: null, provider: null, prices: null, finishReason: null, firstByteMs: null },
      ],
    ])('leave the record as it was: %s', async (_name, change) => {
      const tenantId = await tenantWith(100);
      const settlement = settlementOf(newId(), { tenantId, keyId: 'k' }, 7, change);
      await commit([settlement]);
      const { record } = settlement;
      const { requestLog } = stores.other;
      expect(await requestLog.find(tenantId, record.requestId)).toEqual(record);
      expect(await requestLog.findForAnyTenant(record.requestId)).toEqual(record);
      expect(await requestLog.find('another tenant', record.requestId)).toBeUndefined();
      expect(await requestLog.find(tenantId, 'no id')).toBeUndefined();
      expect(await requestLog.findForAnyTenant('no id')).toBeUndefined();
    });

    test('keep whatever words clients and upstreams use', async () => {
      const tenant = await tenantWith(100);
      const wild = `a\0b\ud800${'\\u0000'}"${'x'.repeat(100_000)}`;
      const settlement = settlementOf(newId(), { tenantId: tenant, keyId: 'k' }, 0, {
        requestedModel: logText(wild),
        finishReason: logText(wild),
        endUser: wild,
      });
      await commit([settlement]);
      const record = await stores.one.requestLog.find(tenant, settlement.record.requestId);
      expect(record?.requestedModel).toStartWith('a\ufffdb\ufffd\\u0000"xxx');
      expect(record?.requestedModel).toHaveLength(200);
    });

    describe('together with the answers of idempotency keys', () => {
      const running = { state: 'running' } as const;
      const done = { state: 'done', recording: null } as const;

      /** Requests of one tenant that have ended, 30 credits each, under these keys. */
      async function answering(credits: number, ...keys: readonly string[]) {
        const tenantId = await tenantWith(credits);
        const ended = keys.map(() => settled(tenantId, 30));
        const requestIds = ended.map(({ record }) => record.requestId);
        const claims = keys.map((key, i) => {
          return { tenantId, key, fingerprint: 'f', requestId: requestIds[i] ?? '' };
        });
        for (const claim of claims) await stores.one.claims.claim(claim, 0, 1_000);
        const answers = claims.map((claim) => ({ claim, recording: null, expiresAt: later }));
        const batch = {
          processId: 'p1',
          entries: ended.map(toSettlementEntry),
          mayRepeat: false,
          now: 2,
        };
        return {
          wallet: walletOwner(tenantId),
          ended,
          requestIds,
          commit: () => stores.one.ledger.commitWithAnswers(batch, answers),
          again: (key: string, now: number) => {
            const claim = { tenantId, key, fingerprint: 'f', requestId: newId() };
            return stores.other.claims.claim(claim, now, 1_000);
          },
        };
      }

      test('are booked, and the answers are known', async () => {
        const { wallet, requestIds, commit, again } = await answering(100, 'k2', 'k1');
        await lease(wallet, { credits: 70 });
        expect(await commit()).toMatchObject({
          booked: [{ account: wallet.name, charge: 60, fromLease: { credits: 60 } }],
          requestIds: new Set(requestIds),
        });
        expect(await account(wallet)).toMatchObject({ balance: 40, leased: 10 });
        expect([await again('k1', 1), await again('k2', 1)]).toEqual([done, done]);
      });

      test('are not booked when another has the key now, and the others are', async () => {
        const { wallet, requestIds, commit, again } = await answering(100, 'lost', 'held');
        expect(await again('lost', 1_000)).toEqual({ state: 'ours' });
        expect((await commit()).requestIds).toEqual(new Set(requestIds.slice(1)));
        expect(await account(wallet)).toMatchObject({ balance: 70, spent: 30 });
        expect([await again('lost', 1_001), await again('held', 1_001)]).toEqual([running, done]);
      });

      test('are not booked at all when others have all of the keys', async () => {
        const { wallet, commit, again } = await answering(100, 'lost');
        expect(await again('lost', 1_000)).toEqual({ state: 'ours' });
        expect(await commit()).toEqual({ booked: [], requestIds: new Set() });
        expect(await account(wallet)).toMatchObject({ balance: 100, spent: 0 });
      });

      test('leave the keys as they were when they cannot be booked', async () => {
        const { wallet, ended, commit: commitBoth, again } = await answering(100, 'k1', 'k2');
        // The books have one of them already.
        await commit(ended.slice(1));
        expect((await failureOf(commitBoth())).message).toMatch(/unique/i);
        expect(await account(wallet)).toMatchObject({ balance: 70 });
        expect([await again('k1', 1), await again('k2', 1)]).toEqual([running, running]);
      });
    });

    test('on many accounts at once, beside leases and renewals, get through', async () => {
      const tenants = await Promise.all(Array.from({ length: 6 }, () => tenantWith(10_000)));
      const wallets = tenants.map(walletOwner);
      const work = [stores.one, stores.other].flatMap(({ ledger }, i) => {
        const processId = `busy${i}`;
        const ordered = i === 0 ? tenants : tenants.toReversed();
        return Array.from({ length: 12 }, async () => {
          for (const wallet of wallets) await ledger.lease(order(wallet, { processId }));
          const entries = ordered.map((tenant) => toSettlementEntry(settled(tenant, 5)));
          await Promise.all([
            ledger.commit({ processId, entries, mayRepeat: false, now: 4 }),
            ledger.renew(processId, later),
            ledger.expire(soon),
          ]);
        });
      });
      await Promise.all(work);
      for (const wallet of wallets) {
        expect(await account(wallet)).toMatchObject({ balance: 10_000 - 24 * 5, leased: 24 * 5 });
      }
    }, 120_000);
  });
});
