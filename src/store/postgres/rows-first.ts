import { CompiledQuery } from 'kysely';
import pg from 'pg';
import { failureCode } from '../../core/errors.ts';
import type { Booked, ParsedBatch, Settlement } from '../../money/ledger.ts';
import { isWalletName, walletName } from '../../money/ledger.ts';
import { totalCharge } from '../../money/price/fee-kinds.ts';
import { insertRows, type StoreTransaction } from '../database.ts';
import { booked, chargesByOwner, commitBatch } from '../ledger/commit.ts';
import { addToBooked, hasNumber, lockBookedNumbers } from '../ledger/journals.ts';
import { logColumns, rowOf } from '../ledger/request-log.ts';
import { type UsageInsert, usageInserts } from '../ledger/usage-sums.ts';
import { andCommit } from './connection.ts';

/**
 * Commits a batch with as little time under the locks on its accounts as possible, because all
 * processes of a tenant wait for the same lock. The log rows are written before, under a number.
 * What needs the locks is one round trip that also commits. Throws a shortfall if an account can't
 * pay; nothing is committed then, and `commitBatch` decides under the locks what is written off.
 */
export async function commitRowsFirst(
  trx: StoreTransaction,
  batch: ParsedBatch,
): Promise<readonly Booked[]> {
  const { settlements, processId, now } = batch;
  if (!settlements.every(isOrdinary)) return commitBatch(trx, 'postgres', batch);
  const numbers = await lockBookedNumbers(trx, batch);
  const isRepeat = ({ journalNumber }: Settlement) =>
    journalNumber !== undefined && numbers.has(journalNumber);
  const charges = chargesByOwner(settlements);
  const bookings = await bookingNumbers(trx, [...charges.keys()]);
  const isPayable = [...charges].every(([owner, charge]) => charge === 0 || bookings.has(owner));
  if (!isPayable || settlements.some(isRepeat)) return commitBatch(trx, 'postgres', batch);
  const rows = settlements.map((settlement) => {
    const { charges, tenantId } = settlement.record;
    const booking = totalCharge(charges) > 0 ? bookings.get(walletName(tenantId)) : undefined;
    return rowOf(settlement, booking ?? null);
  });
  await insertRows(trx, 'postgres', { table: 'request_log', columns: logColumns, rows });
  const journaled = addToBooked(numbers, settlements, (wallet) => bookings.has(wallet));
  const times = settlements.map(({ record }) => record.createdAt);
  const dues = [...charges].map(([owner, charge]) => ({
    owner,
    charge,
    number: isWalletName(owner) && charge > 0 ? bookings.get(owner) : undefined,
    journaled: journaled.get(owner) ?? 0,
  }));
  const journal = settlements.some(hasNumber)
    ? { booked: numbers.toString(), charges: numbers.size }
    : undefined;
  const statements = [
    ...lockStatements([...charges.keys()], processId),
    ...usageInserts(settlements).map(usageStatement),
    ...(journal ? [journalStatement(processId, journal)] : []),
    payStatement(dues, { processId, now, firstAt: Math.min(...times), lastAt: Math.max(...times) }),
  ];
  const { rows: paid } = await trx.executeQuery<PaidAccount>(
    CompiledQuery.raw(statements.join(';\n') + andCommit),
  );
  const fromLease = new Map(paid.map(({ owner, lease, credits }) => [owner, { lease, credits }]));
  return booked(charges, (owner) => fromLease.get(owner) ?? { lease: 0, credits: 0 });
}

/** Returns true if an account couldn't pay, which its table forbids. */
export function isShortfall(error: unknown): boolean {
  return (
    failureCode(error) === '23514' &&
    error instanceof Error &&
    'table' in error &&
    error.table === 'accounts'
  );
}

/**
 * Returns false for what has to be decided under the locks: whether a piece of a job was charged
 * before, or whether an idempotency key was.
 */
function isOrdinary({ claim, record }: Settlement): boolean {
  return claim === undefined && record.jobId === undefined;
}

/**
 * Returns a number for each account that exists. Accounts are never deleted. The numbers are
 * negative, so none is the ID of an entry. They are random, because a sequence needs a privilege
 * that the user of the database may not have.
 */
async function bookingNumbers(
  trx: StoreTransaction,
  owners: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await trx
    .selectFrom('accounts')
    .select('owner')
    .where('owner', 'in', owners)
    .execute();
  return new Map(rows.map(({ owner }) => [owner, randomNumber()]));
}

/** Returns a negative number with 52 random bits. */
function randomNumber(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
  return -1 - ((high & 0xf_ffff) * 2 ** 32 + low);
}

interface Due {
  readonly owner: string;
  readonly charge: number;
  /** Of a wallet's log rows. */
  readonly number: number | undefined;
  /** Charges with a number in a journal. */
  readonly journaled: number;
}

interface Payment {
  readonly processId: string;
  readonly now: number;
  /** When the first and the last request of the batch arrived. */
  readonly firstAt: number;
  readonly lastAt: number;
}

interface PaidAccount {
  readonly owner: string;
  readonly lease: number;
  readonly credits: number;
}

const text = (value: string) => pg.escapeLiteral(value);
const json = (value: unknown) => text(JSON.stringify(value));

/** Locks in the same order as `lockAccounts` and `lockLeases`. */
function lockStatements(owners: readonly string[], processId: string): string[] {
  const accounts = `accounts where owner in (${owners.map(text).join(', ')})`;
  return [
    `select id from ${accounts} order by id for update`,
    `select account_id from leases
      where process_id = ${text(processId)} and account_id in (select id from ${accounts})
      order by account_id for update`,
  ];
}

const usageStatement = ({ table, columns, rows, conflict }: UsageInsert) =>
  `insert into ${table} (${columns.join(', ')})
    select ${columns.join(', ')} from json_populate_recordset(null::${table}, ${json(rows)})
    ${conflict}`;

const journalStatement = (processId: string, journal: { booked: string; charges: number }) =>
  `update journals set booked = ${text(journal.booked)}, charges = ${journal.charges}
    where process_id = ${text(processId)}`;

/**
 * Charges the accounts. Credits of the process's own lease are taken first. A key's limit pays only
 * what it has. A wallet that can't pay violates a constraint of its table.
 */
const payStatement = (dues: readonly Due[], { processId, now, firstAt, lastAt }: Payment) => `
  with due as (
    select account.id, due.owner, due.number, due.journaled,
      case when due.owner like 'tenant:%' then due.charge
        else least(due.charge, account.balance - account.leased + coalesce(lease.credits, 0))
      end as charge,
      coalesce(lease.number, 0) as lease, coalesce(lease.credits, 0) as leased
    from json_to_recordset(${json(dues)})
      as due (owner text, charge bigint, number bigint, journaled bigint)
    join accounts account on account.owner = due.owner
    left join leases lease
      on lease.account_id = account.id and lease.process_id = ${text(processId)}
  ), paid as (
    update accounts set balance = accounts.balance - due.charge,
      spent = accounts.spent + due.charge,
      leased = accounts.leased - least(due.charge, due.leased)
    from due where accounts.id = due.id and due.charge > 0
    returning accounts.id, due.charge, accounts.balance
  ), taken as (
    update leases set credits = leases.credits - least(due.charge, due.leased)
    from due where leases.account_id = due.id and leases.process_id = ${text(processId)}
      and least(due.charge, due.leased) > 0
  ), entry as (
    insert into ledger_entries (account_id, kind, amount, balance_after, note, created_at)
    select id, 'charge', -charge, balance, '', ${now} from paid order by id
    returning id, account_id
  ), booking as (
    insert into bookings (number, entry_id, first_at, last_at)
    select due.number, entry.id, ${firstAt}, ${lastAt}
    from entry join due on due.id = entry.account_id
    where due.number is not null
  ), counted as (
    insert into journaled_charges (account_id, charges)
    select id, journaled from due where journaled > 0 order by id
    on conflict (account_id)
      do update set charges = journaled_charges.charges + excluded.charges
  )
  select owner, lease, least(charge, leased) as credits from due`;
