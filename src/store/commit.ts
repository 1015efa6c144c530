import type { Batch, Booked, Settlement } from '../ledger/ledger-store.ts';
import { writeOff } from '../ledger/write-off.ts';
import { totalCharge } from '../record/request-record.ts';
import { type Account, lockAccounts } from './accounts.ts';
import { sumDaily } from './daily-sums.ts';
import type { Engine, StoreTransaction } from './database.ts';
import { insertRows, updateRows } from './many-rows.ts';
import { idBytes, logColumns, rowOf } from './request-log-rows.ts';

/**
 * The books of one batch, inside one transaction: what each account pays, one ledger entry per
 * account, the log rows under their entry, the daily sums.
 */
export async function commitBatch(
  change: StoreTransaction,
  engine: Engine,
  batch: Batch,
): Promise<readonly Booked[]> {
  const fresh = batch.mayRepeat
    ? await withoutRepeats(change, batch.settlements)
    : batch.settlements;
  const repeats = batch.settlements.filter((settlement) => !fresh.includes(settlement));
  const before = booked(repeats, () => undefined);
  if (fresh.length === 0) return before;
  const accounts = await lockAccounts(change, engine, 'owner', ownersOf(fresh));
  const leases = await leasesOf(change, batch.processId, accounts);
  const byOwner = new Map(accounts.map((account) => [account.owner, account]));
  const settlements = coverShortfalls(fresh, byOwner, leases);
  const charges = chargesByOwner(settlements);
  const payments = accounts.map((account) => pay(account, charges.get(account.owner) ?? 0, leases));
  const due = payments.filter((payment) => payment.charge > 0);
  await updateRows(change, engine, 'accounts', ['id'], ['balance', 'leased', 'spent'], due);
  await updateRows(
    change,
    engine,
    'leases',
    ['account_id', 'process_id'],
    ['credits'],
    due
      .filter((payment) => payment.fromLease > 0)
      .map(({ id, lease, fromLease }) => ({
        account_id: id,
        process_id: batch.processId,
        credits: lease - fromLease,
      })),
  );
  const entries = await bookEntries(change, due, batch.now);
  const rows = settlements.map((settlement) => ({
    ...rowOf(settlement),
    entry_id: entries.get(walletOf(settlement)) ?? null,
  }));
  await insertRows(change, engine, 'request_log', logColumns, rows);
  await sumDaily(change, engine, settlements);
  const paid = new Map(payments.map((payment) => [payment.owner, payment.fromLease]));
  return [...before, ...booked(fresh, (owner) => paid.get(owner))];
}

/**
 * What the process may stop counting as owed. A repeat was paid by the first commit, out of the
 * lease as far as anybody can tell now.
 */
function booked(
  settlements: readonly Settlement[],
  fromLease: (owner: string) => number | undefined,
): Booked[] {
  return [...chargesByOwner(settlements)].map(([account, charge]) => ({
    account,
    charge,
    fromLease: fromLease(account) ?? charge,
  }));
}

async function withoutRepeats(
  change: StoreTransaction,
  settlements: readonly Settlement[],
): Promise<readonly Settlement[]> {
  const ids = settlements.map(({ record }) => idBytes(record.requestId));
  const known = await change
    .selectFrom('request_log')
    .select('request_id')
    .where('request_id', 'in', ids)
    .execute();
  const seen = new Set(known.map((row) => Buffer.from(row.request_id).toString('hex')));
  return settlements.filter(({ record }) => {
    const name = Buffer.from(idBytes(record.requestId)).toString('hex');
    // A journal may hold a line twice; the first one counts.
    return !seen.has(name) && seen.add(name);
  });
}

function ownersOf(settlements: readonly Settlement[]): string[] {
  const owners = settlements.flatMap((settlement) => [
    walletOf(settlement),
    ...(settlement.keyAccount === null ? [] : [settlement.keyAccount]),
  ]);
  return [...new Set(owners)];
}

function walletOf({ record }: Settlement): string {
  return `tenant:${record.tenantId}`;
}

async function leasesOf(
  change: StoreTransaction,
  processId: string,
  accounts: readonly Account[],
): Promise<ReadonlyMap<number, number>> {
  const ids = accounts.map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const rows = await change
    .selectFrom('leases')
    .select(['account_id', 'credits'])
    .where('process_id', '=', processId)
    .where('account_id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.account_id, row.credits]));
}

/**
 * Charges are held on lease before they are made, so the credits are there, unless the lease ran
 * out while this process was cut off. What others have on lease is not ours to take.
 */
function coverShortfalls(
  settlements: readonly Settlement[],
  accounts: ReadonlyMap<string, Account>,
  leases: ReadonlyMap<number, number>,
): readonly Settlement[] {
  let covered = settlements;
  for (const [owner, charge] of chargesByOwner(settlements)) {
    const account = accounts.get(owner);
    if (!account || !owner.startsWith('tenant:')) continue;
    const within = account.balance - account.leased + (leases.get(account.id) ?? 0);
    if (charge > within) covered = writeOff(covered, owner, charge - within);
  }
  return covered;
}

function chargesByOwner(settlements: readonly Settlement[]): ReadonlyMap<string, number> {
  const charges = new Map<string, number>();
  const add = (owner: string, credits: number) =>
    charges.set(owner, (charges.get(owner) ?? 0) + credits);
  for (const settlement of settlements) {
    add(walletOf(settlement), totalCharge(settlement.record.charges));
    if (settlement.keyAccount !== null) add(settlement.keyAccount, settlement.keyCharge);
  }
  return charges;
}

interface Payment extends Account {
  readonly charge: number;
  readonly fromLease: number;
  readonly lease: number;
}

function pay(account: Account, due: number, leases: ReadonlyMap<number, number>): Payment {
  const lease = leases.get(account.id) ?? 0;
  const within = account.balance - account.leased + lease;
  const charge = Math.min(due, within);
  const fromLease = Math.min(charge, lease);
  return {
    ...account,
    balance: account.balance - charge,
    spent: account.spent + charge,
    leased: account.leased - fromLease,
    charge,
    fromLease,
    lease,
  };
}

async function bookEntries(
  change: StoreTransaction,
  due: readonly Payment[],
  now: number,
): Promise<ReadonlyMap<string, number>> {
  if (due.length === 0) return new Map();
  const rows = await change
    .insertInto('ledger_entries')
    .values(
      due.map((payment) => ({
        account_id: payment.id,
        kind: 'charge',
        amount: -payment.charge,
        balance_after: payment.balance,
        note: '',
        idempotency_key: null,
        created_at: now,
      })),
    )
    .returning(['id', 'account_id'])
    .execute();
  const owners = new Map(due.map((payment) => [payment.id, payment.owner]));
  return new Map(rows.map((row) => [owners.get(row.account_id) ?? '', row.id]));
}
