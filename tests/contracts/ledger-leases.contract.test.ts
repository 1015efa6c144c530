import { describe, expect, test } from 'bun:test';
import { randomText } from '../../src/core/ids.ts';
import { keyLimitAccount, type Owner, walletOwner } from '../../src/money/ledger.ts';
import { callerOf, settlementOf } from '../support/money/settlements.ts';
import { engines } from './engines.ts';
import { later, sharedLedger } from './shared-ledger.ts';

/** Early enough that no other lease expires at this time. */
const soon = 1_000;
const newId = () => crypto.randomUUID();

describe.each(engines.map((engine) => ({ ...engine })))(
  'SqlLedger leases on $name',
  ({ empty }) => {
    const { stores, tenantWith, leaseRequest, lease, account, commit } = sharedLedger(empty);

    describe('lease', () => {
      test('grants the requested credits and a share of the remaining credits, in multiples of one hold', async () => {
        const wallet = walletOwner(await tenantWith(1_000));
        expect(await lease(wallet, { credits: 100, oneHold: 100 })).toMatchObject({ granted: 200 });
        // An eighth of the remaining 700 is 87, less than another hold.
        expect(await lease(wallet, { credits: 100, oneHold: 100 })).toMatchObject({ granted: 100 });
        expect(await account(wallet)).toMatchObject({ balance: 1_000, leased: 300 });
        // An eighth of the remaining 695 in whole credits.
        expect(await lease(wallet, { credits: 5, oneHold: 1 })).toMatchObject({ granted: 91 });
      });

      test('grants the last credit, but no more', async () => {
        const wallet = walletOwner(await tenantWith(25));
        const granted = [];
        for (let i = 0; i < 4; i++) granted.push((await lease(wallet)).granted);
        expect(granted).toEqual([10, 10, 5, 0]);
      });

      test('never exceeds the balance with 2 concurrent processes', async () => {
        const wallet = walletOwner(await tenantWith(995));
        const requests = Array.from({ length: 120 }, (_, i) => {
          const { ledger } = i % 2 === 0 ? stores.one : stores.other;
          return ledger.lease(leaseRequest(wallet, { processId: i % 2 === 0 ? 'p1' : 'p2' }));
        });
        const answers = await Promise.all(requests);
        expect(answers.reduce((sum, { granted }) => sum + granted, 0)).toBe(995);
        expect(await account(wallet)).toMatchObject({ balance: 995, leased: 995 });
      });

      test('grants nothing to an unknown tenant', async () => {
        const answer = await lease(walletOwner('ten_nobody'));
        expect(answer).toMatchObject({ granted: 0, outsideLease: 0, leasedElsewhere: 0 });
      });

      test('returns the credits of the account outside the lease', async () => {
        const wallet = walletOwner(await tenantWith(100));
        expect(await lease(wallet, { credits: 30 })).toMatchObject({ outsideLease: 70 });
        expect(await lease(wallet, { credits: 20, processId: 'p2' })).toMatchObject({
          outsideLease: 80,
        });
        expect(await lease(wallet, { credits: 5 })).toMatchObject({ outsideLease: 65 });
        const unchanged = await lease(wallet, { credits: 0, oneHold: 0 });
        expect(unchanged).toMatchObject({ granted: 0, outsideLease: 65 });
        const startNew = await lease(wallet, { credits: 40, startNew: true });
        expect(startNew).toMatchObject({ granted: 40, outsideLease: 60 });
      });

      test('keeps the number of the request that started it', async () => {
        const wallet = walletOwner(await tenantWith(100));
        const first = await lease(wallet, { number: 71 });
        const second = await lease(wallet, { number: 72 });
        expect([first.lease, second.lease]).toEqual([71, 71]);
      });

      test('replaces the lease of the process if startNew is set', async () => {
        const wallet = walletOwner(await tenantWith(100));
        await lease(wallet, { credits: 90 });
        const startNew = await lease(wallet, { credits: 95, startNew: true, number: 8_000 });
        expect(startNew).toMatchObject({ granted: 95, lease: 8_000 });
        expect(await account(wallet)).toMatchObject({ leased: 95 });
        await lease(wallet, { credits: 0, startNew: true });
        expect(await account(wallet)).toMatchObject({ leased: 0 });
      });

      test('grants at most the balance if startNew is set and there is no previous lease', async () => {
        const wallet = walletOwner(await tenantWith(100));
        const startNew = await lease(wallet, { credits: 150, startNew: true });
        expect(startNew).toMatchObject({ granted: 100, leasedElsewhere: 0 });
        expect(await account(wallet)).toMatchObject({ balance: 100, leased: 100 });
      });

      test('ignores credits that are returned to a replaced lease', async () => {
        const wallet = walletOwner(await tenantWith(100));
        const { lease: number } = await lease(wallet, { credits: 50 });
        const returned = { processId: 'p1', owner: wallet.name, lease: number, credits: 20 };
        await stores.one.ledger.returnCredits(returned);
        expect(await account(wallet)).toMatchObject({ leased: 30 });
        await lease(wallet, { credits: 40, startNew: true });
        await stores.one.ledger.returnCredits(returned);
        expect(await account(wallet)).toMatchObject({ leased: 40 });
      });

      test('expires unless it is renewed', async () => {
        const wallet = walletOwner(await tenantWith(100));
        await lease(wallet, { processId: 'expired', until: soon });
        await lease(wallet, { processId: 'renewed', until: soon });
        expect(await stores.one.ledger.renew('renewed', later)).toEqual(new Set([wallet.name]));
        await stores.other.ledger.expire(soon + 1);
        expect(await account(wallet)).toMatchObject({ leased: 10 });
        expect(await stores.one.ledger.renew('expired', later)).toEqual(new Set());
        expect(await stores.one.ledger.renew('renewed', later)).toEqual(new Set([wallet.name]));
      });

      test('expires even if no other process has a lease', async () => {
        const wallet = walletOwner(await tenantWith(100));
        await lease(wallet, { processId: 'alone', until: soon });
        await stores.other.ledger.expire(soon + 1);
        expect(await account(wallet)).toMatchObject({ balance: 100, leased: 0 });
      });

      test('ends at the next renewal if it is empty', async () => {
        const wallet = walletOwner(await tenantWith(100));
        const processId = randomText(8);
        const { lease: number, granted } = await lease(wallet, { processId, number: 1 });
        const all = { processId, owner: wallet.name, lease: number, credits: granted };
        await stores.one.ledger.returnCredits(all);
        // Another process's renewal doesn't affect it.
        await stores.one.ledger.renew('another', later);
        expect(await lease(wallet, { processId, credits: 0 })).toMatchObject({ lease: number });
        expect(await stores.one.ledger.renew(processId, later)).toEqual(new Set());
        expect(await account(wallet)).toMatchObject({ balance: 100, leased: 0 });
        expect(await lease(wallet, { processId, number: 2 })).toMatchObject({ granted, lease: 2 });
        // A late return to the previous lease doesn't affect this one.
        await stores.one.ledger.returnCredits(all);
        expect(await account(wallet)).toMatchObject({ leased: granted });
        expect(await stores.one.ledger.renew(processId, later)).toEqual(new Set([wallet.name]));
      });

      test('ends immediately for a dead process, without expiring other leases', async () => {
        const wallet = walletOwner(await tenantWith(100));
        await lease(wallet, { processId: 'dead' });
        await lease(wallet, { processId: 'alive', until: soon });
        await stores.one.ledger.expire(soon + 1, 'dead');
        expect(await account(wallet)).toMatchObject({ leased: 10 });
      });
    });

    describe('recall', () => {
      test('is pending for other processes with credits until they answer', async () => {
        const wallet = walletOwner(await tenantWith(30));
        const [lender, waiter] = [randomText(8), randomText(8)];
        const { lease: number } = await lease(wallet, { processId: lender, credits: 30 });
        const rejected = await lease(wallet, { processId: waiter });
        expect(rejected).toMatchObject({ granted: 0, leasedElsewhere: 30 });
        expect(await stores.one.ledger.pendingRecalls(lender)).toEqual([]);

        await stores.one.ledger.recall(wallet.name, waiter);
        expect(await stores.other.ledger.pendingRecalls(lender)).toEqual([wallet.name]);
        expect(await stores.other.ledger.pendingRecalls(waiter)).toEqual([]);
        const waiting = await lease(wallet, { processId: waiter });
        expect(waiting).toMatchObject({ granted: 0, unanswered: 30 });

        const returned = { processId: lender, owner: wallet.name, lease: number, credits: 4 };
        await stores.one.ledger.returnCredits(returned);
        expect(await stores.other.ledger.pendingRecalls(lender)).toEqual([]);
        const answered = await lease(wallet, { processId: waiter });
        expect(answered).toMatchObject({ granted: 4, leasedElsewhere: 26, unanswered: 0 });
      });

      test('is pending for one account even while its process waits for another account', async () => {
        const [first, second] = [await tenantWith(1), await tenantWith(1)].map(walletOwner);
        if (!first || !second) throw new Error('Two wallets are missing.');
        const process = randomText(8);
        for (const wallet of [first, second]) await lease(wallet, { processId: process });
        await stores.one.ledger.recall(first.name, 'waiter');
        // The process itself waits for credits of the second account.
        await stores.one.ledger.recall(second.name, process);
        expect(await stores.other.ledger.pendingRecalls(process)).toEqual([first.name]);
      });

      test('is answered by a process without unused credits', async () => {
        const wallet = walletOwner(await tenantWith(10));
        const process = randomText(8);
        const { lease: number } = await lease(wallet, { processId: process });
        await stores.one.ledger.recall(wallet.name, 'waiter');
        const nothing = { processId: process, owner: wallet.name, lease: number, credits: 0 };
        await stores.one.ledger.returnCredits(nothing);
        expect(await lease(wallet, { processId: 'waiter' })).toMatchObject({ unanswered: 0 });
      });
    });

    describe('lease of a key limit', () => {
      const limited = (tenantId: string, limitCredits: number, keyId = randomText(8)): Owner => {
        const owner = keyLimitAccount(callerOf(tenantId, { keyId, limitCredits }), 1);
        if (!owner) throw new Error('A key with a limit has an account.');
        return owner;
      };

      test('grants the limit once to 2 concurrent processes', async () => {
        const key = limited(await tenantWith(0), 25);
        const both = [stores.one, stores.other].map(({ ledger }, i) =>
          ledger.lease(leaseRequest(key, { processId: `p${i}`, credits: 20 })),
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

      test('follows a raised limit and takes back only free credits of a lowered one', async () => {
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

      test('never lowers the granted credits below the spent ones', async () => {
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

      test('charges the key its own amount, which may be less than that of the wallet', async () => {
        const tenant = await tenantWith(100);
        const key = limited(tenant, 50);
        const beyond = settlementOf(newId(), { tenantId: tenant, keyId: 'beyond' }, 40);
        await lease(key, { credits: 25 });
        await commit([{ ...beyond, keyAccount: key.name, keyCharge: 25 }]);
        expect(await account(key)).toMatchObject({ balance: 25, leased: 0, spent: 25 });
        expect(await account(walletOwner(tenant))).toMatchObject({ balance: 60, spent: 40 });
      });

      test('does not charge credits that another process has leased', async () => {
        const tenant = await tenantWith(100);
        const key = limited(tenant, 10);
        await lease(key, { processId: 'other', credits: 6 });
        const late = settlementOf(newId(), { tenantId: tenant, keyId: 'late' }, 8);
        await commit([{ ...late, keyAccount: key.name, keyCharge: 8 }]);
        expect(await account(key)).toMatchObject({ balance: 6, leased: 6, spent: 4 });
        expect(await account(walletOwner(tenant))).toMatchObject({ balance: 92, spent: 8 });
      });
    });
  },
);
