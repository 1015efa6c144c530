import { sql } from 'kysely';
import { walletName } from '../../ledger/owner.ts';
import { dayMs, dayOf, isoDay } from '../../record/period.ts';
import { dailySums } from '../books/daily-sums.ts';
import { idText } from '../books/request-log-rows.ts';
import type { Database } from '../database.ts';
import { charged } from '../expressions.ts';
import { logsSince, wholeSince } from '../retention.ts';
import type { Report } from './verify.ts';

const tenantsPerPage = 500;

/** Requests of one day without their entry that are named; the rest show in the balances. */
const strayRequestsMax = 100;

type Sum = (typeof dailySums)[number];

interface TenantDay {
  readonly tenantId: string;
  readonly day: number;
}

/** The daily sums against the request log, for every day whose requests are all kept. */
export async function checkDays(database: Database, report: Report): Promise<number> {
  const firstDay = (await logsSince(database)) / dayMs;
  let [requests, lastTenant] = [0, ''];
  for (;;) {
    const tenants = await tenantsAfter(database, lastTenant);
    for (const { id: tenantId } of tenants) {
      let day = await nextDay(database, tenantId, firstDay);
      while (day !== null) {
        requests += await checkDay(database, { tenantId, day }, report);
        day = await nextDay(database, tenantId, day + 1);
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

async function checkDay(database: Database, at: TenantDay, report: Report): Promise<number> {
  const name = `Tenant ${at.tenantId}, ${isoDay(at.day)}`;
  for (const group of await differences(database, at)) {
    const wrong = dailySums.filter((sum) => group[sum] !== 0);
    const how = wrong.map((sum) => `${sum} by ${-group[sum]}`).join(', ');
    const { key_id, model, provider, traffic_mode } = group;
    const which = JSON.stringify([key_id, model, provider, traffic_mode]);
    report(`${name}, ${which}: the daily sums differ from the request log in ${how}.`);
  }
  for (const { request_id } of await strayRequests(database, at)) {
    report(`${name}, request ${idText(request_id)}: its charge is in no entry of the wallet.`);
  }
  const { rows } = await database.read
    .selectFrom('request_log')
    .select((of) => of.fn.countAll<number>().as('rows'))
    .where('tenant_id', '=', at.tenantId)
    .where('created_at', '>=', at.day * dayMs)
    .where('created_at', '<', (at.day + 1) * dayMs)
    .executeTakeFirstOrThrow();
  return rows;
}

interface Group extends Readonly<Record<Sum, number>> {
  readonly key_id: string;
  readonly model: string;
  readonly provider: string;
  readonly traffic_mode: string;
}

/** One statement sees both sides at the same moment; a difference of zero everywhere is no row. */
async function differences({ read }: Database, at: TenantDay): Promise<readonly Group[]> {
  const each = (write: (sum: Sum) => string, glue: string) =>
    sql.raw(dailySums.map(write).join(glue));
  const { rows } = await sql<Group>`
    select key_id, model, provider, traffic_mode, ${each((sum) => `sum(${sum}) as ${sum}`, ', ')}
    from (
      select key_id, requested_model as model, coalesce(provider, '') as provider, traffic_mode,
        1 as requests,
        case when status = 'error' then 1 else 0 end as failed_requests,
        input_tokens + cache_read_tokens + cache_write_tokens as prompt_tokens,
        output_tokens as completion_tokens,
        model_charge, byok_platform_fee, managed_tool_fee, agent_runtime_fee,
        written_off, searches, duration_ms
      from request_log
      where tenant_id = ${at.tenantId}
        and created_at >= ${at.day * dayMs} and created_at < ${(at.day + 1) * dayMs}
        and created_at >= ${wholeSince}
      union all
      select key_id, model, provider, traffic_mode, ${each((sum) => `-${sum}`, ', ')}
      from usage_daily
      where tenant_id = ${at.tenantId} and day = ${at.day}
        and day * ${sql.lit(dayMs)} >= ${wholeSince}
    ) as both_sides
    group by key_id, model, provider, traffic_mode
    having ${each((sum) => `sum(${sum}) <> 0`, ' or ')}
    order by key_id, model, provider, traffic_mode`.execute(read);
  return rows;
}

function strayRequests({ read }: Database, at: TenantDay) {
  return read
    .selectFrom('request_log as log')
    .leftJoin('ledger_entries as entry', 'entry.id', 'log.entry_id')
    .leftJoin('accounts as account', 'account.id', 'entry.account_id')
    .select('log.request_id')
    .where('log.tenant_id', '=', at.tenantId)
    .where('log.created_at', '>=', at.day * dayMs)
    .where('log.created_at', '<', (at.day + 1) * dayMs)
    .where(charged, '>', 0)
    .where(sql<boolean>`coalesce(account.owner, '') <> ${walletName(at.tenantId)}`)
    .orderBy('log.id')
    .limit(strayRequestsMax)
    .execute();
}
