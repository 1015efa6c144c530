import { describe, expect, test } from 'bun:test';
import { logText } from '../../src/core/text.ts';
import { toSettlementEntry, walletOwner } from '../../src/money/ledger.ts';
import type { RequestRecord } from '../../src/records/request-record.ts';
import { settlementOf } from '../support/money/settlements.ts';
import { engines } from './engines.ts';
import { failureOf } from './failure-of.ts';
import { later, sharedLedger } from './shared-ledger.ts';

/** Early enough that no lease expires at this time. */
const soon = 1_000;
const newId = () => crypto.randomUUID();

describe.each(engines.map((engine) => ({ ...engine })))(
  'SqlLedger commits on $name',
  ({ empty }) => {
    const { stores, tenantWith, leaseRequest, lease, account, commit } = sharedLedger(empty);

    describe('commit', () => {
      const settled = (tenantId: string, charge: number, id = newId()) =>
        settlementOf(id, { tenantId, keyId: 'key_1' }, charge);

      test('takes charges from the lease and books 1 entry per account', async () => {
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

      test('takes a charge of 1 credit from the lease', async () => {
        const tenant = await tenantWith(10);
        const wallet = walletOwner(tenant);
        await lease(wallet, { processId: 'one', credits: 2 });
        await commit([settled(tenant, 1)], { processId: 'one' });
        expect(await account(wallet)).toMatchObject({ balance: 9, leased: 1, spent: 1 });
        // The lease has 1 more credit, which returns to the account.
        await stores.one.ledger.expire(1, 'one');
        expect(await account(wallet)).toMatchObject({ balance: 9, leased: 0 });
      });

      test('takes free credits without a lease, and writes off the credits that are missing', async () => {
        const tenant = await tenantWith(100);
        await lease(walletOwner(tenant), { processId: 'other', credits: 70 });
        const [first, last] = [settled(tenant, 20), settled(tenant, 25)];
        const booked = await commit([first, last]);
        expect(booked).toMatchObject([{ charge: 45, fromLease: { credits: 0 } }]);
        // The lease of the other process doesn't change.
        expect(await account(walletOwner(tenant))).toMatchObject({ balance: 70, leased: 70 });
        const record = await stores.one.requestLog.find(tenant, last.record.requestId);
        expect(record?.charges.modelCharge).toBe(10);
        expect(record?.note).toBe(
          "15 credits were written off because the wallet couldn't cover them.",
        );
        const intact = await stores.one.requestLog.find(tenant, first.record.requestId);
        expect(intact).toMatchObject({ charges: { modelCharge: 20 }, note: null });
      });

      test('writes everything off for a tenant without a wallet', async () => {
        const settlement = settled('ten_without_wallet', 30);
        await commit([settlement]);
        const { requestId } = settlement.record;
        const record = await stores.one.requestLog.find('ten_without_wallet', requestId);
        expect(record?.charges.modelCharge).toBe(0);
      });

      test('books only new settlements of a repeated batch', async () => {
        const tenant = await tenantWith(100);
        const wallet = walletOwner(tenant);
        await lease(wallet, { credits: 60 });
        const [first, second] = [settled(tenant, 10), settled(tenant, 20)];
        await commit([first]);
        const repeated = await commit([first, second], { mayRepeat: true });
        expect(await account(wallet)).toMatchObject({ balance: 70, leased: 30 });
        // Null: whether the first commit took its credits from the lease is unknown.
        expect(repeated.filter(({ fromLease }) => fromLease === null)).toMatchObject([
          { account: wallet.name, charge: 10 },
        ]);
      });

      test('books no entry for free requests', async () => {
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

      test('does not charge an account again for repeated settlements', async () => {
        const [tenant, other] = [await tenantWith(100), await tenantWith(100)];
        const first = settled(tenant, 10);
        await commit([first]);
        await commit([first, settled(other, 20)], { mayRepeat: true });
        expect(await account(walletOwner(tenant))).toMatchObject({ balance: 90, spent: 10 });
        expect(await account(walletOwner(other))).toMatchObject({ balance: 80, spent: 20 });
      });

      test('books a journal once when 2 processes replay it at the same time', async () => {
        const tenant = await tenantWith(10_000);
        await lease(walletOwner(tenant), { processId: 'dead', credits: 10_000 });
        const entries = Array.from({ length: 40 }, () => toSettlementEntry(settled(tenant, 7)));
        const batch = { processId: 'dead', entries, mayRepeat: true, now: 3 };
        await Promise.all([stores.one.ledger.commit(batch), stores.other.ledger.commit(batch)]);
        expect(await account(walletOwner(tenant))).toMatchObject({ balance: 10_000 - 280 });
      });

      test('books all settlements of a batch or none', async () => {
        const tenant = await tenantWith(100);
        const wallet = walletOwner(tenant);
        await lease(wallet, { credits: 60 });
        const repeated = settled(tenant, 10);
        await commit([repeated]);
        expect(await failureOf(commit([settled(tenant, 5), repeated]))).toBeInstanceOf(Error);
        expect(await account(wallet)).toMatchObject({ balance: 90, leased: 50, spent: 10 });
      });

      test('books nothing if the daily sums cannot be written', async () => {
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
        ['a minimal record', {}],
        [
          'a record with all fields',
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
        [
          'a record with a skill and units',
          { skills: ['one'], units: { inputImages: 1, audioMs: 0.5 } },
        ],
        [
          'a record of a request without an answer',
          { model: null, provider: null, prices: null, finishReason: null, firstByteMs: null },
        ],
      ])('stores %s unchanged', async (_name, change) => {
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

      test('stores arbitrary text of clients and providers', async () => {
        const tenant = await tenantWith(100);
        const text = `a\0b\ud800${'\\u0000'}"${'x'.repeat(100_000)}`;
        const settlement = settlementOf(newId(), { tenantId: tenant, keyId: 'k' }, 0, {
          requestedModel: logText(text),
          finishReason: logText(text),
          endUser: text,
        });
        await commit([settlement]);
        const record = await stores.one.requestLog.find(tenant, settlement.record.requestId);
        expect(record?.requestedModel).toStartWith('a\ufffdb\ufffd\\u0000"xxx');
        expect(record?.requestedModel).toHaveLength(200);
      });

      describe('commitWithAnswers', () => {
        const running = { state: 'running' } as const;
        const done = { state: 'done', recording: null } as const;

        /** Creates finished requests of one tenant under these keys, 30 credits each. */
        async function finishedRequests(credits: number, ...keys: readonly string[]) {
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
            claimAgain: (key: string, now: number) => {
              const claim = { tenantId, key, fingerprint: 'f', requestId: newId() };
              return stores.other.claims.claim(claim, now, 1_000);
            },
          };
        }

        test('books the charges and stores the answers', async () => {
          const { wallet, requestIds, commit, claimAgain } = await finishedRequests(
            100,
            'k2',
            'k1',
          );
          await lease(wallet, { credits: 70 });
          expect(await commit()).toMatchObject({
            booked: [{ account: wallet.name, charge: 60, fromLease: { credits: 60 } }],
            requestIds: new Set(requestIds),
          });
          expect(await account(wallet)).toMatchObject({ balance: 40, leased: 10 });
          expect([await claimAgain('k1', 1), await claimAgain('k2', 1)]).toEqual([done, done]);
        });

        test('does not book a request whose key was taken over', async () => {
          const { wallet, requestIds, commit, claimAgain } = await finishedRequests(
            100,
            'lost',
            'held',
          );
          expect(await claimAgain('lost', 1_000)).toEqual({ state: 'ours' });
          expect((await commit()).requestIds).toEqual(new Set(requestIds.slice(1)));
          expect(await account(wallet)).toMatchObject({ balance: 70, spent: 30 });
          expect([await claimAgain('lost', 1_001), await claimAgain('held', 1_001)]).toEqual([
            running,
            done,
          ]);
        });

        test('books nothing if all keys were taken over', async () => {
          const { wallet, commit, claimAgain } = await finishedRequests(100, 'lost');
          expect(await claimAgain('lost', 1_000)).toEqual({ state: 'ours' });
          expect(await commit()).toEqual({ booked: [], requestIds: new Set() });
          expect(await account(wallet)).toMatchObject({ balance: 100, spent: 0 });
        });

        test('does not change the keys if the charges cannot be booked', async () => {
          const {
            wallet,
            ended,
            commit: commitBoth,
            claimAgain,
          } = await finishedRequests(100, 'k1', 'k2');
          // One of them is already booked.
          await commit(ended.slice(1));
          expect((await failureOf(commitBoth())).message).toMatch(/unique/i);
          expect(await account(wallet)).toMatchObject({ balance: 70 });
          expect([await claimAgain('k1', 1), await claimAgain('k2', 1)]).toEqual([
            running,
            running,
          ]);
        });
      });

      test('does not deadlock on many accounts during leases and renewals', async () => {
        const tenants = await Promise.all(Array.from({ length: 6 }, () => tenantWith(10_000)));
        const wallets = tenants.map(walletOwner);
        const work = [stores.one, stores.other].flatMap(({ ledger }, i) => {
          const processId = `busy${i}`;
          const ordered = i === 0 ? tenants : tenants.toReversed();
          return Array.from({ length: 12 }, async () => {
            for (const wallet of wallets) await ledger.lease(leaseRequest(wallet, { processId }));
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
  },
);
