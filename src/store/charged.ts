import { sql } from 'kysely';

/** What a row of the request log or of the daily sums was charged: its four fees together. */
export const charged = sql<number>`(
  model_charge + byok_platform_fee + managed_tool_fee + agent_runtime_fee
)`;
