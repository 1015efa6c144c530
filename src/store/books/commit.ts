import { chargesOf } from '../../ledger/charges.ts';
import type { Booked, ReadBatch, Settlement } from '../../ledger/ledger-store.ts';
import { isWalletName, walletName } from '../../ledger/owner.ts';
import { type Failure, withoutCharge, writeOff } from '../../ledger/write-off.ts';
import { totalCharge } from '../../record/request-record.ts';
import { answeredBefore } from '../claims.ts';
import type { Engine, StoreTransaction } from '../database.ts';
import { addJobCosts } from '../jobs/costs.ts';
import { type Account, lockAccounts } from './accounts.ts';
import { sumDaily } from './daily-sums.ts';
import { lockLeases } from './leases.ts';
import { insertRows, updateRows } from './many-rows.ts';
import { idBytes, idText, logColumns, rowOf } from './request-log-rows.ts';

/**
 * The books of one batch, inside one transaction: what each account pays, one ledger entry per
 * account, the log rows under their entry, the daily sums, the costs of jobs.
 */
export async function commitBatch(
  change: StoreTransaction,
  engine: Engine,
  batch: ReadBatch,
): Promise<readonly Booked[]> {
  // Claims are locked before accounts everywhere: no two transactions can wait for each other.
  const free = await freeAnswers(change, batch);
  const all = chargesByOwner(batch.settlements);
  const accounts = await lockAccounts(change, 'owner', [...all.keys()]);
  // Looked at under the locks: two processes may replay the same journal at the same time.
  const { fresh, repeats } = batch.mayRepeat
    ? await splitRepeats(change, batch.settlements)
    : { fresh: batch.settlements, repeats: [] };
  const before = booked(chargesByOwner(repeats), () => null);
  if (fresh.length === 0) return before;
  const owed = repeats.length === 0 ? all : chargesByOwner(fresh);
  const leases = await leasesOf(change, batch.processId, accounts);
  const payable = free.size === 0 ? fresh : withoutFree(fresh, free);
  const costs = payable === fresh ? owed : chargesByOwner(payable);
  const settlements = coverShortfalls(payable, costs, accounts, leases);
  const charges = settlements === payable ? costs : chargesByOwner(settlements);
  const payments = accounts.map((account) => pay(account, charges.get(account.owner) ?? 0, leases));
  const due = payments.filter((payment) => payment.charge > 0);
  await updateRows(change, engine, {
    table: 'accounts',
    keys: ['id'],
    columns: ['balance', 'leased', 'spent'],
    rows: due,
  });
  await updateRows(change, engine, {
    table: 'leases',
    keys: ['account_id', 'process_id'],
    columns: ['credits'],
    rows: due
      .filter(({ fromLease }) => fromLease.credits > 0)
      .map(({ id, leaseBefore, fromLease }) => ({
        account_id: id,
        process_id: batch.processId,
        credits: leaseBefore - fromLease.credits,
      })),
  });
  const entries = await bookEntries(change, due, batch.now);
  const rows = settlements.map((settlement) =>
    rowOf(settlement, entries.get(walletName(settlement.record.tenantId)) ?? null),
  );
  await insertRows(change, engine, { table: 'request_log', columns: logColumns, rows });
  await sumDaily(change, engine, settlements);
  await addJobCosts(change, settlements);
  const paid = new Map(payments.map((payment) => [payment.owner, payment.fromLease]));
  return [...before, ...booked(owed, (owner) => paid.get(owner) ?? nothing)];
}

const noAnswers: ReadonlySet<string> = new Set();

/** The requests that another answer to their `Idempotency-Key` is charged for. */
async function freeAnswers(
  change: StoreTransaction,
  { settlements, now, mayPutOff = false }: ReadBatch,
): Promise<ReadonlySet<string>> {
  const answered = settlements.filter(
    ({ claim, record }) => claim && totalCharge(record.charges) > 0,
  );
  if (answered.length === 0) return noAnswers;
  // A request that is booked has used its key already, which another may have claimed since.
  const { fresh } = await splitRepeats(change, answered);
  const claims = fresh.flatMap(({ claim }) => claim ?? []);
  return claims.length === 0 ? noAnswers : answeredBefore(change, claims, { now, mayPutOff });
}

function withoutFree(
  settlements: readonly Settlement[],
  free: ReadonlySet<string>,
): readonly Settlement[] {
  return settlements.map((one) =>
    free.has(one.record.requestId) ? withoutCharge(one, chargedBefore) : one,
  );
}

const chargedBefore: Failure = {
  error: null,
  note: 'Another answer to its Idempotency-Key was charged before this one, which is free.',
};

type FromLease = NonNullable<Booked['fromLease']>;

const nothing: FromLease = { lease: 0, credits: 0 };

/** The amounts that the process need not count as owed any more. */
function booked(
  charges: ReadonlyMap<string, number>,
  fromLease: (owner: string) => FromLease | null,
): Booked[] {
  return [...charges].map(([account, charge]) => ({
    account,
    charge,
    fromLease: fromLease(account),
  }));
}

async function splitRepeats(
  change: StoreTransaction,
  settlements: readonly Settlement[],
): Promise<{ fresh: readonly Settlement[]; repeats: readonly Settlement[] }> {
  const ids = settlements.map(({ record }) => idBytes(record.requestId));
  const known = await change
    .selectFrom('request_log')
    .select('request_id')
    .where('request_id', 'in', ids)
    .execute();
  const seen = new Set(known.map((row) => idText(row.request_id)));
  const [fresh, repeats]: [Settlement[], Settlement[]] = [[], []];
  for (const settlement of settlements) {
    const { requestId } = settlement.record;
    // A journal may hold a line twice; the first one counts.
    (seen.has(requestId) ? repeats : fresh).push(settlement);
    seen.add(requestId);
  }
  return { fresh, repeats };
}

type LeaseById = ReadonlyMap<number, FromLease>;

async function leasesOf(
  change: StoreTransaction,
  processId: string,
  accounts: readonly Account[],
): Promise<LeaseById> {
  const ids = accounts.map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const rows = await lockLeases(change, (of) =>
    of.and([of('process_id', '=', processId), of('account_id', 'in', ids)]),
  );
  return new Map(
    rows.map(({ account_id, number, credits }) => [account_id, { lease: number, credits }]),
  );
}

/**
 * Charges are held on lease before they are made, so the credits are there, unless the lease ran
 * out while this process was cut off. What others have on lease is not ours to take.
 */
function coverShortfalls(
  settlements: readonly Settlement[],
  owed: ReadonlyMap<string, number>,
  accounts: readonly Account[],
  leases: LeaseById,
): readonly Settlement[] {
  const byOwner = new Map(accounts.map((account) => [account.owner, account]));
  let covered = settlements;
  for (const [owner, charge] of owed) {
    if (!isWalletName(owner)) continue;
    const account = byOwner.get(owner);
    const within = account ? withinReach(account, leases) : 0;
    if (charge > within) covered = writeOff(covered, owner, charge - within);
  }
  return covered;
}

function chargesByOwner(settlements: readonly Settlement[]): ReadonlyMap<string, number> {
  const charges = new Map<string, number>();
  for (const settlement of settlements) {
    for (const { account, charge } of chargesOf(settlement)) {
      charges.set(account, (charges.get(account) ?? 0) + charge);
    }
  }
  return charges;
}

/** What a process may take from an account: its free credits, and those on the process's lease. */
function withinReach({ id, balance, leased }: Account, leases: LeaseById): number {
  return balance - leased + (leases.get(id)?.credits ?? 0);
}

/** An account as it will be, and what it was charged. */
interface Payment extends Account {
  readonly charge: number;
  readonly fromLease: FromLease;
  /** Credits of the process's lease before. */
  readonly leaseBefore: number;
}

function pay(account: Account, due: number, leases: LeaseById): Payment {
  const { lease, credits } = leases.get(account.id) ?? nothing;
  const charge = Math.min(due, withinReach(account, leases));
  const fromLease = { lease, credits: Math.min(charge, credits) };
  return {
    ...account,
    balance: account.balance - charge,
    spent: account.spent + charge,
    leased: account.leased - fromLease.credits,
    charge,
    fromLease,
    leaseBefore: credits,
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
