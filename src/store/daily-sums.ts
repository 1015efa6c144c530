import { promptTokens } from '../core/usage.ts';
import type { Settlement } from '../ledger/ledger-store.ts';
import type { Engine, StoreTransaction } from './database.ts';
import { insertRows } from './many-rows.ts';
import { storable } from './request-log-rows.ts';
import type { UsageDailyTable } from './schema.ts';

export const dayMs = 86_400_000;

const keys = ['tenant_id', 'day', 'key_id', 'model', 'provider', 'traffic_mode'] as const;
const sums = [
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

const addUp = `on conflict (${keys.join(', ')}) do update set ${sums
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
    const row = dailyRow(settlement);
    const name = keys.map((key) => row[key]).join('\n');
    const before = rows.get(name);
    if (before) for (const column of sums) before[column] += row[column];
    else rows.set(name, row);
  }
  await insertRows(change, engine, 'usage_daily', [...keys, ...sums], [...rows.values()], addUp);
}

function dailyRow({ record, writtenOff }: Settlement): UsageDailyTable {
  const { charges, usage } = record;
  return {
    tenant_id: record.tenantId,
    day: Math.floor(record.createdAt / dayMs),
    key_id: record.keyId,
    model: storable(record.requestedModel),
    provider: record.provider ?? '',
    traffic_mode: record.trafficMode,
    requests: 1,
    failed_requests: record.status === 'error' ? 1 : 0,
    prompt_tokens: promptTokens(usage),
    completion_tokens: usage.outputTokens,
    model_charge: charges.modelCharge,
    byok_platform_fee: charges.byokPlatformFee,
    managed_tool_fee: charges.managedToolFee,
    agent_runtime_fee: charges.agentRuntimeFee,
    written_off: writtenOff,
    searches: record.searches,
    duration_ms: record.durationMs,
  };
}
