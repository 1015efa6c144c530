import { type RawBuilder, sql } from 'kysely';
import type { Engine } from './database.ts';

/** SQL that queries of several files share. */

/** What a row of the request log or of the daily sums was charged: its four fees together. */
export const charged = sql<number>`(
  model_charge + byok_platform_fee + managed_tool_fee + agent_runtime_fee
)`;

/** Names as bytes, whatever language the server sorts by: every list has the same order. */
export function byBytes(column: string, engine: Engine): RawBuilder<string> {
  return engine === 'sqlite' ? sql.ref(column) : sql`${sql.ref(column)} collate "C"`;
}
