import { sql } from 'kysely';
import { failureCode } from '../../core/errors.ts';
import { walletName } from '../../money/ledger.ts';
import { allTime, dayMs, dayOf, isoDay } from '../../records/period.ts';
import { charged, type ReadOnlyDatabase } from '../database.ts';
import { idText } from '../ledger/request-log.ts';
import { dailyAddends } from '../ledger/usage-sums.ts';
import { logCompleteSince, logsSince } from '../retention.ts';
import { type DailySum, dailySums } from '../schema.ts';
import { checkAccounts, checkOrphans } from './accounts.ts';
import { checkJournals } from './journals.ts';
import { createRowCounter, type OnRows, type Progress, type Report } from './progress.ts';

export interface Verification {
  readonly accounts: number;
  readonly entries: number;
  readonly requests: number;
  readonly discrepancies: number;
}

/**
 * Checks accounts, leases, entries, requests, and daily sums against each other. Reads in pages.
 * Each page is read by a single statement, so that the page is consistent even while gateways are
 * writing.
 */
export async function verifyLedger(
  database: ReadOnlyDatabase,
  report: Report,
  onProgress: Progress = () => undefined,
): Promise<Verification> {
  let discrepancies = 0;
  const count: Report = (line) => {
    discrepancies += 1;
    report(line);
  };
  if (!(await checkFile(database, count))) {
    return { accounts: 0, entries: 0, requests: 0, discrepancies };
  }
  const progressOf = (what: string) => createRowCounter(what, onProgress);
  const { accounts, entries } = await checkAccounts(database, count, progressOf('entries'));
  const requests = await checkDays(database, count, progressOf('requests'));
  await checkRequestIds(database, count, progressOf('request IDs'));
  await checkOrphans(database, count);
  await checkJournals(database, count);
  return { accounts, entries, requests, discrepancies };
}

/** The maximum number of reported lines, enough to see how bad the damage is. */
const linesMax = 20;

/**
 * Returns whether the file is undamaged. A damaged page can hide behind an index: the ledger looks
 * correct, and the next write fails. Postgres has `pg_amcheck` for this.
 */
async function checkFile({ engine, read }: ReadOnlyDatabase, report: Report): Promise<boolean> {
  if (engine === 'postgres') return true;
  const damage = await findDamage(read);
  for (const line of damage) report(`The database file is damaged: ${line}`);
  return damage.length === 0;
}

async function findDamage(read: ReadOnlyDatabase['read']): Promise<readonly string[]> {
  try {
    const query = sql<{ integrity_check: string }>`pragma integrity_check(${sql.lit(linesMax)})`;
    const { rows } = await query.execute(read);
    return rows.map((row) => row.integrity_check.trim()).filter(isDamage);
  } catch (error) {
    if (failureCode(error)?.startsWith('SQLITE_CORRUPT')) return ["it can't be read."];
    throw error;
  }
}

/** Ignores values that violate a table's constraints, which the other checks report. */
function isDamage(line: string): boolean {
  return line !== 'ok' && !/^(?:CHECK constraint failed|NULL value) in /.test(line);
}

const tenantsPerPage = 500;

/**
 * Days are checked together if they have at most this many requests, because most days have few.
 */
const requestsPerSpan = 10_000;

/** The maximum number of requests without an entry that are reported per span. */
const unbookedRequestsMax = 100;

/** The end of the last span, which includes all remaining requests and any sums after them. */
const endOfDays = dayOf(allTime.until);

/** Days of one tenant, including the first and the last. */
interface Span {
  readonly tenantId: string;
  readonly first: number;
  readonly last: number;
}

/** Checks the daily sums against the request log, for every day with a complete log. */
async function checkDays(
  database: ReadOnlyDatabase,
  report: Report,
  onRows: OnRows,
): Promise<number> {
  const firstDay = (await logsSince(database)) / dayMs;
  let [requests, lastTenant] = [0, ''];
  for (;;) {
    const tenants = await tenantsAfter(database, lastTenant);
    for (const { id: tenantId } of tenants) {
      let first = await nextDay(database, tenantId, firstDay);
      while (first !== null) {
        const last = await lastDay(database, tenantId, first);
        const checked = await checkSpan(database, { tenantId, first, last }, report);
        onRows(checked);
        requests += checked;
        first = await nextDay(database, tenantId, last + 1);
      }
    }
    const last = tenants.at(-1);
    if (!last) return requests;
    lastTenant = last.id;
  }
}

function tenantsAfter({ read }: ReadOnlyDatabase, lastId: string) {
  return read
    .selectFrom('tenants')
    .select('id')
    .where('id', '>', lastId)
    .orderBy('id')
    .limit(tenantsPerPage)
    .execute();
}

/** Returns the first day, at or after the given one, that has a request or a sum. */
async function nextDay(
  { read }: ReadOnlyDatabase,
  tenantId: string,
  from: number,
): Promise<number | null> {
  const logged = await read
    .selectFrom('request_log')
    .select((eb) => eb.fn.min('created_at').as('at'))
    .where('tenant_id', '=', tenantId)
    .where('created_at', '>=', from * dayMs)
    .executeTakeFirst();
  const summed = await read
    .selectFrom('usage_daily')
    .select((eb) => eb.fn.min('day').as('day'))
    .where('tenant_id', '=', tenantId)
    .where('day', '>=', from)
    .executeTakeFirst();
  const days = [
    ...(logged?.at == null ? [] : [dayOf(logged.at)]),
    ...(summed?.day == null ? [] : [summed.day]),
  ];
  return days.length === 0 ? null : Math.min(...days);
}

/** Returns the last day of a span: a single busy day, or several quiet ones. */
async function lastDay(
  { read }: ReadOnlyDatabase,
  tenantId: string,
  first: number,
): Promise<number> {
  const beyond = await read
    .selectFrom('request_log')
    .select('created_at')
    .where('tenant_id', '=', tenantId)
    .where('created_at', '>=', first * dayMs)
    .orderBy('created_at')
    .orderBy('id')
    .limit(1)
    .offset(requestsPerSpan)
    .executeTakeFirst();
  return Math.max(first, beyond ? dayOf(beyond.created_at) - 1 : endOfDays);
}

async function checkSpan(database: ReadOnlyDatabase, span: Span, report: Report): Promise<number> {
  // In a damaged ledger, a sum can have a day beyond the calendar.
  const dateOf = (day: number) => (day > endOfDays ? `day ${day}` : isoDay(day));
  const nameOf = (day: number) => `Tenant ${span.tenantId}, ${dateOf(day)}`;
  for (const group of await differences(database, span)) {
    const wrong = dailySums.filter((sum) => group[sum] !== 0);
    const amounts = wrong.map((sum) => `${sum} by ${-group[sum]}`).join(', ');
    const { day, key_id, model, provider, traffic_mode } = group;
    const which = JSON.stringify([key_id, model, provider, traffic_mode]);
    report(`${nameOf(day)}, ${which}: the daily sums differ from the request log in ${amounts}.`);
  }
  for (const { request_id, created_at } of await unbookedRequests(database, span)) {
    const name = `${nameOf(dayOf(created_at))}, request ${idText(request_id)}`;
    report(`${name}: no ledger entry of the wallet includes its charge.`);
  }
  const { rows } = await database.read
    .selectFrom('request_log')
    .select((eb) => eb.fn.countAll<number>().as('rows'))
    .where('tenant_id', '=', span.tenantId)
    .where('created_at', '>=', span.first * dayMs)
    .where('created_at', '<', (span.last + 1) * dayMs)
    .executeTakeFirstOrThrow();
  return rows;
}

interface Group extends Readonly<Record<DailySum, number>> {
  readonly day: number;
  readonly key_id: string;
  readonly model: string;
  readonly provider: string;
  readonly traffic_mode: string;
}

/**
 * Compares both sides in one statement, so that both are read at the same point in time. Returns
 * only groups that differ.
 */
async function differences({ read }: ReadOnlyDatabase, span: Span): Promise<readonly Group[]> {
  const each = (write: (sum: DailySum) => string, glue: string) =>
    sql.raw(dailySums.map(write).join(glue));
  const { rows } = await sql<Group>`
    select day, key_id, model, provider, traffic_mode,
      ${each((sum) => `sum(${sum}) as ${sum}`, ', ')}
    from (
      select created_at / ${sql.lit(dayMs)} as day, key_id, requested_model as model,
        coalesce(provider, '') as provider, traffic_mode,
        ${each((sum) => `${dailyAddends[sum].sql} as ${sum}`, ', ')}
      from request_log
      where tenant_id = ${span.tenantId}
        and created_at >= ${span.first * dayMs} and created_at < ${(span.last + 1) * dayMs}
        and created_at >= ${logCompleteSince}
      union all
      select day, key_id, model, provider, traffic_mode, ${each((sum) => `-${sum}`, ', ')}
      from usage_daily
      where tenant_id = ${span.tenantId} and day >= ${span.first} and day <= ${span.last}
        and day * ${sql.lit(dayMs)} >= ${logCompleteSince}
    ) as both_sides
    group by day, key_id, model, provider, traffic_mode
    having ${each((sum) => `sum(${sum}) <> 0`, ' or ')}
    order by day, key_id, model, provider, traffic_mode`.execute(read);
  return rows;
}

/**
 * Returns charged requests that no entry of the wallet includes. They are sorted like the index
 * that finds them. Otherwise, Postgres would scan the whole log.
 */
function unbookedRequests({ read }: ReadOnlyDatabase, span: Span) {
  return read
    .selectFrom('request_log as log')
    .leftJoin('bookings as booking', 'booking.number', 'log.entry_id')
    .leftJoin('ledger_entries as entry', (join) =>
      join.on('entry.id', '=', sql`coalesce(booking.entry_id, log.entry_id)`),
    )
    .leftJoin('accounts as account', 'account.id', 'entry.account_id')
    .select(['log.request_id', 'log.created_at'])
    .where('log.tenant_id', '=', span.tenantId)
    .where('log.created_at', '>=', span.first * dayMs)
    .where('log.created_at', '<', (span.last + 1) * dayMs)
    .where(charged, '>', 0)
    .where(sql<boolean>`coalesce(account.owner, '') <> ${walletName(span.tenantId)}`)
    .orderBy('log.created_at')
    .orderBy('log.id')
    .limit(unbookedRequestsMax)
    .execute();
}

const idsPerPage = 20_000;

/**
 * Checks that no request is in the log twice, so that none is charged twice. The table forbids
 * duplicates. This check is for a database that was edited, restored, or damaged.
 */
async function checkRequestIds(
  { read }: ReadOnlyDatabase,
  report: Report,
  onRows: OnRows,
): Promise<void> {
  let first: Uint8Array | undefined = new Uint8Array(16);
  while (first) {
    const from: Uint8Array = first;
    const page = read
      .selectFrom('request_log')
      .select('request_id')
      .where('request_id', '>=', from)
      .orderBy('request_id');
    const repeated = await read
      .selectFrom(page.limit(idsPerPage).as('page'))
      .select('request_id')
      .groupBy('request_id')
      .having(sql<boolean>`count(*) > 1`)
      .execute();
    for (const { request_id } of repeated) {
      report(`Request ${idText(request_id)} is in the log more than once.`);
    }
    // The last ID of a page starts the next one, so that no duplicate is split between pages.
    const next = await page
      .limit(1)
      .offset(idsPerPage - 1)
      .executeTakeFirst();
    if (next) onRows(idsPerPage - 1);
    first = next && Buffer.compare(next.request_id, from) > 0 ? next.request_id : undefined;
  }
}
