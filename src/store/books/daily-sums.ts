import { logText } from '../../core/log-text.ts';
import { promptTokens } from '../../core/usage.ts';
import type { Settlement } from '../../ledger/ledger-store.ts';
import { dayOf } from '../../record/period.ts';
import type { RequestRecord } from '../../record/request-record.ts';
import type { Engine, StoreTransaction } from '../database.ts';
import type { UsageDailyTable } from '../schema.ts';
import { insertRows } from './many-rows.ts';

const keys = ['tenant_id', 'day', 'key_id', 'model', 'provider', 'traffic_mode'] as const;
/** The columns that are added up. */
export const dailySums = [
  'requests',
  'failed_requests',
  'prompt_tokens',
  'completion_tokens',
  'model_charge',
  'byok_platform_fee',
  'managed_tool_fee',
  'agent_runtime_fee',
  'written_off',
  'searches',
  'duration_ms',
] as const;

const addUp = `on conflict (${keys.join(', ')}) do update set ${dailySums
  .map((name) => `${name} = usage_daily.${name} + excluded.${name}`)
  .join(', ')}`;

/** Adds a batch to the daily sums; requests of the same kind and day become one row first. */
export async function sumDaily(
  change: StoreTransaction,
  engine: Engine,
  settlements: readonly Settlement[],
): Promise<void> {
  const rows = new Map<string, UsageDailyTable>();
  for (const settlement of settlements) {
    const kind = kindOf(settlement.record);
    const name = nameOf(kind);
    let row = rows.get(name);
    if (!row) {
      row = emptyRow(kind);
      rows.set(name, row);
    }
    add(row, settlement);
  }
  await insertRows(change, engine, {
    table: 'usage_daily',
    columns: [...keys, ...dailySums],
    rows: [...rows.values()],
    conflict: addUp,
  });
}

function kindOf(record: RequestRecord): Kind {
  return {
    tenant_id: record.tenantId,
    day: dayOf(record.createdAt),
    key_id: record.keyId,
    model: logText(record.requestedModel),
    provider: record.provider ?? '',
    traffic_mode: record.trafficMode,
  };
}

/** Spelled out instead of looped, because it runs for every request. */
function nameOf(kind: Kind): string {
  const { tenant_id, day, key_id, model, provider, traffic_mode } = kind;
  return `${tenant_id}\n${day}\n${key_id}\n${model}\n${provider}\n${traffic_mode}`;
}

type Kind = Pick<UsageDailyTable, (typeof keys)[number]>;

function emptyRow(kind: Kind): UsageDailyTable {
  return {
    ...kind,
    requests: 0,
    failed_requests: 0,
    prompt_tokens: 0,
    completion_tokens: 0,
    model_charge: 0,
    byok_platform_fee: 0,
    managed_tool_fee: 0,
    agent_runtime_fee: 0,
    written_off: 0,
    searches: 0,
    duration_ms: 0,
  };
}

function add(row: UsageDailyTable, { record, writtenOff }: Settlement): void {
  const { charges, usage } = record;
  row.requests += 1;
  row.failed_requests += record.status === 'error' ? 1 : 0;
  row.prompt_tokens += promptTokens(usage);
  row.completion_tokens += usage.outputTokens;
  row.model_charge += charges.modelCharge;
  row.byok_platform_fee += charges.byokPlatformFee;
  row.managed_tool_fee += charges.managedToolFee;
  row.agent_runtime_fee += charges.agentRuntimeFee;
  row.written_off += writtenOff;
  row.searches += record.searches;
  row.duration_ms += record.durationMs;
}
