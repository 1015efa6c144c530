import { sql } from 'kysely';
import { walletName } from '../../ledger/owner.ts';
import { allTime, dayMs, dayOf, isoDay } from '../../record/period.ts';
import { dailySums } from '../books/daily-sums.ts';
import { idText } from '../books/request-log-rows.ts';
import type { Database } from '../database.ts';
import { charged } from '../expressions.ts';
import { logsSince, wholeSince } from '../retention.ts';
import type { Passed, Report } from './verify.ts';

const tenantsPerPage = 500;

/** Days are checked together up to this many requests: most days have only a few. */
const requestsPerSpan = 10_000;

/** So many requests without their entry are named for a span; the rest show in the balances. */
const strayRequestsMax = 100;

/** The end of the last span, which takes all requests that are left and any sums after them. */
const endOfDays = dayOf(allTime.until);

type Sum = (typeof dailySums)[number];

/** Days of one tenant, the first and the last included. */
interface Span {
  readonly tenantId: string;
  readonly first: number;
  readonly last: number;
}

/** The daily sums against the request log, for every day whose requests are all kept. */
export async function checkDays(
  database: Database,
  report: Report,
  passed: Passed,
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
        passed(checked);
        requests += checked;
        first = await nextDay(database, tenantId, last + 1);
      }
    }
    const last = tenants.at(-1);
    if (!last) return requests;
    lastTenant = last.id;
  }
}

function tenantsAfter({ read }: Database, lastId: string) {
  return read
    .selectFrom('tenants')
    .select('id')
    .where('id', '>', lastId)
    .orderBy('id')
    .limit(tenantsPerPage)
    .execute();
}

/** The first day from the given one on that has a request or a sum. */
async function nextDay({ read }: Database, tenantId: string, from: number): Promise<number | null> {
  const logged = await read
    .selectFrom('request_log')
    .select((of) => of.fn.min('created_at').as('at'))
    .where('tenant_id', '=', tenantId)
    .where('created_at', '>=', from * dayMs)
    .executeTakeFirst();
  const summed = await read
    .selectFrom('usage_daily')
    .select((of) => of.fn.min('day').as('day'))
    .where('tenant_id', '=', tenantId)
    .where('day', '>=', from)
    .executeTakeFirst();
  const days = [
    ...(logged?.at == null ? [] : [dayOf(logged.at)]),
    ...(summed?.day == null ? [] : [summed.day]),
  ];
  return days.length === 0 ? null : Math.min(...days);
}

/** One day that is long, or as many days as are short enough together. */
async function lastDay({ read }: Database, tenantId: string, first: number): Promise<number> {
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

async function checkSpan(database: Database, span: Span, report: Report): Promise<number> {
  // In damaged books a sum may be of a day that no calendar has.
  const dateOf = (day: number) => (day > endOfDays ? `day ${day}` : isoDay(day));
  const nameOf = (day: number) => `Tenant ${span.tenantId}, ${dateOf(day)}`;
  for (const group of await differences(database, span)) {
    const wrong = dailySums.filter((sum) => group[sum] !== 0);
    const how = wrong.map((sum) => `${sum} by ${-group[sum]}`).join(', ');
    const { day, key_id, model, provider, traffic_mode } = group;
    const which = JSON.stringify([key_id, model, provider, traffic_mode]);
    report(`${nameOf(day)}, ${which}: the daily sums differ from the request log in ${how}.`);
  }
  for (const { request_id, created_at } of await strayRequests(database, span)) {
    const name = `${nameOf(dayOf(created_at))}, request ${idText(request_id)}`;
    report(`${name}: its charge is in no entry of the wallet.`);
  }
  const { rows } = await database.read
    .selectFrom('request_log')
    .select((of) => of.fn.countAll<number>().as('rows'))
    .where('tenant_id', '=', span.tenantId)
    .where('created_at', '>=', span.first * dayMs)
    .where('created_at', '<', (span.last + 1) * dayMs)
    .executeTakeFirstOrThrow();
  return rows;
}

interface Group extends Readonly<Record<Sum, number>> {
  readonly day: number;
  readonly key_id: string;
  readonly model: string;
  readonly provider: string;
  readonly traffic_mode: string;
}

/** One statement sees both sides at the same moment; a difference of zero everywhere is no row. */
async function differences({ read }: Database, span: Span): Promise<readonly Group[]> {
  const each = (write: (sum: Sum) => string, glue: string) =>
    sql.raw(dailySums.map(write).join(glue));
  const { rows } = await sql<Group>`
    select day, key_id, model, provider, traffic_mode,
      ${each((sum) => `sum(${sum}) as ${sum}`, ', ')}
    from (
      select created_at / ${sql.lit(dayMs)} as day, key_id, requested_model as model,
        coalesce(provider, '') as provider, traffic_mode, 1 as requests,
        case when status = 'error' then 1 else 0 end as failed_requests,
        input_tokens + cache_read_tokens + cache_write_tokens as prompt_tokens,
        output_tokens as completion_tokens,
        model_charge, byok_platform_fee, managed_tool_fee, agent_runtime_fee,
        written_off, searches, duration_ms
      from request_log
      where tenant_id = ${span.tenantId}
        and created_at >= ${span.first * dayMs} and created_at < ${(span.last + 1) * dayMs}
        and created_at >= ${wholeSince}
      union all
      select day, key_id, model, provider, traffic_mode, ${each((sum) => `-${sum}`, ', ')}
      from usage_daily
      where tenant_id = ${span.tenantId} and day >= ${span.first} and day <= ${span.last}
        and day * ${sql.lit(dayMs)} >= ${wholeSince}
    ) as both_sides
    group by day, key_id, model, provider, traffic_mode
    having ${each((sum) => `sum(${sum}) <> 0`, ' or ')}
    order by day, key_id, model, provider, traffic_mode`.execute(read);
  return rows;
}

/** In the order of the index that finds them: in any other, Postgres would walk the whole log. */
function strayRequests({ read }: Database, span: Span) {
  return read
    .selectFrom('request_log as log')
    .leftJoin('ledger_entries as entry', 'entry.id', 'log.entry_id')
    .leftJoin('accounts as account', 'account.id', 'entry.account_id')
    .select(['log.request_id', 'log.created_at'])
    .where('log.tenant_id', '=', span.tenantId)
    .where('log.created_at', '>=', span.first * dayMs)
    .where('log.created_at', '<', (span.last + 1) * dayMs)
    .where(charged, '>', 0)
    .where(sql<boolean>`coalesce(account.owner, '') <> ${walletName(span.tenantId)}`)
    .orderBy('log.created_at')
    .orderBy('log.id')
    .limit(strayRequestsMax)
    .execute();
}
