import type { NumberRanges } from '../../core/number-ranges.ts';
import type { Booked, ParsedBatch, Settlement } from '../../money/ledger.ts';
import { chargesOf, isWalletName, walletName } from '../../money/ledger.ts';
import { totalCharge } from '../../money/price/fee-kinds.ts';
import { type Failure, withoutCharge, writeOff } from '../../money/settle/write-off.ts';
import type { Engine, StoreTransaction } from '../database.ts';
import { insertRows, updateRows } from '../database.ts';
import { answeredBefore } from '../idempotency-answers.ts';
import { addJobCosts } from '../jobs/jobs.ts';
import { logsSince } from '../retention.ts';
import { type Account, lockAccounts, lockLeases } from './accounts.ts';
import { bookedNumbers, bookNumbers, hasNumber, lockBookedNumbers } from './journals.ts';
import { idBytes, idText, logColumns, periodOfId, rowOf } from './request-log.ts';
import { addUsageSums } from './usage-sums.ts';

const noRequests: ReadonlySet<string> = new Set();

/**
 * Commits one batch inside a transaction: charges each account, adds one ledger entry per account
 * and the log rows that refer to it, and updates the usage sums and the costs of jobs. The requests
 * in `paidBefore` are free.
 */
export async function commitBatch(
  trx: StoreTransaction,
  engine: Engine,
  batch: ParsedBatch,
  paidBefore = noRequests,
): Promise<readonly Booked[]> {
  // Every transaction locks claims, then its journal, then accounts, so they can't deadlock.
  const free = new Set([...paidBefore, ...(await chargedElsewhere(trx, batch))]);
  const numbers = await lockBookedNumbers(trx, batch);
  const all = chargesByOwner(batch.settlements);
  const accounts = await lockAccounts(trx, 'owner', [...all.keys()]);
  // Checked under the locks, because two processes may replay the same journal at the same time.
  const { fresh, repeats } = await splitRepeats(trx, batch, numbers);
  await bookNumbers(trx, engine, batch, { numbers, accounts });
  const before = booked(chargesByOwner(repeats), () => null);
  if (fresh.length === 0) return before;
  const owed = repeats.length === 0 ? all : chargesByOwner(fresh);
  const leases = await leasesOf(trx, batch.processId, accounts);
  const payable = free.size === 0 ? fresh : waiveDuplicateCharges(fresh, free);
  const costs = payable === fresh ? owed : chargesByOwner(payable);
  const settlements = writeOffShortfalls(payable, costs, accounts, leases);
  const charges = settlements === payable ? costs : chargesByOwner(settlements);
  const payments = accounts.map((account) => pay(account, charges.get(account.owner) ?? 0, leases));
  const due = payments.filter((payment) => payment.charge > 0);
  await updateRows(trx, engine, {
    table: 'accounts',
    keys: ['id'],
    columns: ['balance', 'leased', 'spent'],
    rows: due,
  });
  await updateRows(trx, engine, {
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
  const entries = await bookEntries(trx, due, batch.now);
  const rows = settlements.map((settlement) =>
    rowOf(settlement, entries.get(walletName(settlement.record.tenantId)) ?? null),
  );
  await insertRows(trx, engine, { table: 'request_log', columns: logColumns, rows });
  await addUsageSums(trx, engine, settlements);
  await addJobCosts(trx, settlements);
  const paid = new Map(payments.map((payment) => [payment.owner, payment.fromLease]));
  return [...before, ...booked(owed, (owner) => paid.get(owner) ?? noLease)];
}

/** Returns the requests whose `Idempotency-Key` was charged for another answer. */
async function chargedElsewhere(
  trx: StoreTransaction,
  { settlements, processId, now, mayDefer = false, isReplay = false }: ParsedBatch,
): Promise<ReadonlySet<string>> {
  const answered = settlements.filter(
    ({ claim, record }) => claim && totalCharge(record.charges) > 0,
  );
  if (answered.length === 0) return noRequests;
  // A committed request has already used its key, and another request may have claimed the key
  // since.
  const numbers = await bookedNumbers(trx, processId);
  const { fresh } = await splitRepeats(trx, { settlements: answered, mayRepeat: true }, numbers);
  const claims = fresh.flatMap(({ claim }) => claim ?? []);
  return claims.length === 0
    ? noRequests
    : answeredBefore(trx, claims, { now, mayDefer, isReplay });
}

function waiveDuplicateCharges(
  settlements: readonly Settlement[],
  free: ReadonlySet<string>,
): readonly Settlement[] {
  return settlements.map((settlement) =>
    free.has(settlement.record.requestId) ? withoutCharge(settlement, chargedBefore) : settlement,
  );
}

const chargedBefore: Failure = {
  error: null,
  note: 'Another answer with the same Idempotency-Key was already charged, so this one is free.',
};

type FromLease = NonNullable<Booked['fromLease']>;

const noLease: FromLease = { lease: 0, credits: 0 };

/** Returns the amounts that the process no longer has to count as owed. */
export function booked(
  charges: ReadonlyMap<string, number>,
  fromLease: (owner: string) => FromLease | null,
): Booked[] {
  return [...charges].map(([account, charge]) => ({
    account,
    charge,
    fromLease: fromLease(account),
  }));
}

/** Separates the settlements that were committed before, by their numbers or request IDs. */
async function splitRepeats(
  trx: StoreTransaction,
  {
    settlements,
    mayRepeat,
    isReplay = false,
  }: Pick<ParsedBatch, 'settlements' | 'mayRepeat' | 'isReplay'>,
  numbers: NumberRanges,
): Promise<{ fresh: readonly Settlement[]; repeats: readonly Settlement[] }> {
  const isBooked = ({ journalNumber }: Settlement) =>
    journalNumber !== undefined && numbers.has(journalNumber);
  // The unique index of a partition can't reject what another partition has.
  const repeatable = mayRepeat ? settlements : settlements.filter(isOfJob);
  if (repeatable.length === 0 && !settlements.some(isBooked))
    return { fresh: settlements, repeats: [] };
  const seen = await knownRequests(trx, repeatable);
  // Another process may have repeated and charged the piece of a job, with a number of its own.
  const isRecognizable = (settlement: Settlement) =>
    hasNumber(settlement) && !(isReplay && isOfJob(settlement));
  // The log can't tell whether an older request was booked, and none may be charged twice.
  const since = settlements.every(isRecognizable) ? 0 : await logsSince({ read: trx });
  const [fresh, repeats]: [Settlement[], Settlement[]] = [[], []];
  for (const settlement of settlements) {
    const { requestId, createdAt } = settlement.record;
    const isUnknowable = mayRepeat && !isRecognizable(settlement) && createdAt < since;
    // A journal can contain a line twice. The first one counts.
    const isRepeat = isBooked(settlement) || isUnknowable || seen.has(requestId);
    (isRepeat ? repeats : fresh).push(settlement);
    seen.add(requestId);
  }
  return { fresh, repeats };
}

/** A process that repeats a piece of a job uses the same request ID at another time. */
const isOfJob = ({ record }: Settlement) => record.jobId !== undefined;

/** Returns false for a piece of a job. */
function hasTimeInId({ record: { requestId, createdAt } }: Settlement): boolean {
  const { from, until } = periodOfId(requestId);
  return createdAt >= from && createdAt <= until;
}

async function knownRequests(
  trx: StoreTransaction,
  settlements: readonly Settlement[],
): Promise<Set<string>> {
  const [known, timed] = [new Set<string>(), Map.groupBy(settlements, hasTimeInId)];
  for (const [hasTime, group] of timed) {
    const ids = group.map(({ record }) => record.requestId);
    const periods = ids.map(periodOfId);
    const rows = await trx
      .selectFrom('request_log')
      .select('request_id')
      .where('request_id', 'in', ids.map(idBytes))
      // Postgres reads only the partitions of these times.
      .$if(hasTime, (query) =>
        query
          .where('created_at', '>=', Math.min(...periods.map(({ from }) => from)))
          .where('created_at', '<=', Math.max(...periods.map(({ until }) => until))),
      )
      .execute();
    for (const row of rows) known.add(idText(row.request_id));
  }
  return known;
}

type LeaseById = ReadonlyMap<number, FromLease>;

async function leasesOf(
  trx: StoreTransaction,
  processId: string,
  accounts: readonly Account[],
): Promise<LeaseById> {
  const ids = accounts.map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const rows = await lockLeases(trx, (eb) =>
    eb.and([eb('process_id', '=', processId), eb('account_id', 'in', ids)]),
  );
  return new Map(
    rows.map(({ account_id, number, credits }) => [account_id, { lease: number, credits }]),
  );
}

/**
 * Writes off charges that exceed the available credits. Charges are covered by a lease, so this
 * happens only if the lease expired while this process couldn't reach the store. Credits leased by
 * other processes aren't available.
 */
function writeOffShortfalls(
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
    const available = account ? availableCredits(account, leases) : 0;
    if (charge > available) covered = writeOff(covered, owner, charge - available);
  }
  return covered;
}

export function chargesByOwner(settlements: readonly Settlement[]): ReadonlyMap<string, number> {
  const charges = new Map<string, number>();
  for (const settlement of settlements) {
    for (const { account, charge } of chargesOf(settlement)) {
      charges.set(account, (charges.get(account) ?? 0) + charge);
    }
  }
  return charges;
}

/** Returns what a process may take from an account: free credits and those of its own lease. */
function availableCredits({ id, balance, leased }: Account, leases: LeaseById): number {
  return balance - leased + (leases.get(id)?.credits ?? 0);
}

/** An account after a charge, and the charge. */
interface Payment extends Account {
  readonly charge: number;
  readonly fromLease: FromLease;
  /** Credits of the process's lease before the charge. */
  readonly leaseBefore: number;
}

function pay(account: Account, due: number, leases: LeaseById): Payment {
  const { lease, credits } = leases.get(account.id) ?? noLease;
  const charge = Math.min(due, availableCredits(account, leases));
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
  trx: StoreTransaction,
  due: readonly Payment[],
  now: number,
): Promise<ReadonlyMap<string, number>> {
  if (due.length === 0) return new Map();
  const rows = await trx
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
