/** The fields of the API's answers that the pages read; docs/api.md describes the answers. */

export type Kind = 'routing' | 'management' | 'admin';

export interface Key {
  readonly id: string;
  readonly label: string;
  readonly name: string;
  readonly disabled: boolean;
  readonly limit: number | null;
  readonly limit_remaining: number | null;
  readonly limit_reset: 'daily' | 'weekly' | 'monthly' | null;
  readonly limit_resets_at: string | null;
  readonly usage: number;
  readonly usage_daily: number;
  readonly usage_weekly: number;
  readonly usage_monthly: number;
  readonly models: readonly string[] | null;
  readonly scopes: readonly string[] | null;
  readonly requests_per_minute: number | null;
  readonly cache: string | null;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
}

export interface IssuedKey {
  readonly data: Key;
  readonly key: string;
}

export interface Summary {
  readonly total_requests: number;
  readonly failed_requests: number;
  readonly error_rate: number;
  readonly total_tokens: number;
  readonly total_spend: number;
  readonly avg_latency_ms: number;
}

export interface Day {
  readonly date: string;
  readonly requests: number;
  readonly failed_requests: number;
  readonly tokens: number;
  readonly spend: number;
  readonly avg_latency_ms: number;
}

export interface Group {
  /** `null`: all groups that are not listed separately. */
  readonly value: string | null;
  readonly summary: Summary;
  readonly timeseries: readonly Day[];
}

export interface Analytics {
  readonly summary: Summary;
  readonly timeseries: readonly Day[];
  readonly groups?: readonly Group[];
}

export interface LogRow {
  readonly request_id: string;
  readonly api_key_id: string;
  readonly model: string;
  readonly provider: string;
  readonly status: 'success' | 'error';
  readonly error: string | null;
  readonly traffic_mode: string;
  readonly tokens: { readonly prompt: number; readonly completion: number; readonly total: number };
  readonly cost: number;
  readonly latency_ms: number;
  readonly billing_note: string | null;
  readonly created_at: string;
}

export interface LogPage {
  readonly logs: readonly LogRow[];
  readonly pagination: {
    readonly total: number;
    readonly offset: number;
    readonly has_more: boolean;
  };
}

export interface Attempt {
  readonly provider: string;
  readonly model: string;
  readonly own_account?: boolean;
  readonly outcome: string;
  readonly status: number | null;
  readonly message: string | null;
  readonly ms: number;
}

export interface ReceiptLine {
  readonly price: string;
  readonly quantity: number;
  readonly per: number;
  readonly usd: string;
  readonly credits: string;
}

export interface Receipt {
  readonly request_id: string;
  readonly api_key_id: string;
  readonly operation: string;
  readonly job_id: string | null;
  readonly model: string;
  readonly status: 'success' | 'error';
  readonly error: string | null;
  /** Why the request failed, in a sentence. */
  readonly failure: string | null;
  readonly traffic_mode: string;
  readonly tokens: {
    readonly input: number;
    readonly audio: number;
    readonly cache_read: number;
    readonly cache_write: number;
    readonly cache_write_1h: number;
    readonly completion: number;
    readonly reasoning: number;
  };
  readonly usage_estimated: boolean;
  readonly lines: readonly ReceiptLine[];
  readonly prices: Readonly<Record<string, string>> | null;
  readonly prices_above_tokens: number | null;
  readonly cost: number;
  readonly usd: number;
  readonly cost_breakdown: Readonly<Record<string, number>>;
  /** The credits of the lines that were not charged. */
  readonly not_charged: number;
  readonly search_requests: number;
  readonly skills_used: readonly string[];
  readonly billing_note: string | null;
  readonly finish_reason: string | null;
  readonly streamed: boolean;
  readonly cancelled: boolean;
  readonly cache_hit: boolean;
  readonly first_byte_ms: number | null;
  readonly latency_ms: number;
  readonly user: string | null;
  readonly attempts: readonly Attempt[];
  readonly created_at: string;
  readonly generation_url: string;
}

export interface Credits {
  readonly balance: {
    readonly available: number;
    readonly held: number;
    readonly total: number;
  };
  readonly credits_per_usd: number;
  readonly current_period: {
    readonly start_date: string;
    readonly requests: number;
    readonly shared_model_spend: number;
    readonly byok_platform_fees: number;
    readonly managed_tool_fees: number;
    readonly agent_runtime_fees: number;
    readonly total_spend: number;
  };
  readonly lifetime: {
    readonly granted: number;
    readonly spent: number;
    readonly adjusted: number;
  };
}

export interface StatementMonth {
  readonly month: string;
  readonly opening_balance: number;
  readonly granted: number;
  readonly corrected: number;
  readonly charged: number;
  readonly closing_balance: number;
}

export interface Model {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly context_length: number;
  readonly max_output_tokens: number;
  readonly architecture: {
    readonly input_modalities: readonly string[];
    readonly output_modalities: readonly string[];
    readonly features: readonly string[];
  };
}

export interface Endpoint {
  readonly provider: string;
  readonly priority: number;
  readonly traffic_mode: string;
  readonly pricing: Readonly<Record<string, string>>;
  readonly long_prompts?: readonly (Readonly<Record<string, string | number>> & {
    readonly above_tokens: number;
  })[];
  readonly circuit: Circuit;
  readonly first_byte_ms: number | null;
  readonly tokens_per_second: number | null;
}

export type Circuit = 'closed' | 'open' | 'half_open';

export interface Credential {
  readonly provider: string;
  readonly label: string;
  readonly mode: string;
  readonly base_url: string | null;
  readonly updated_at: string;
}

export interface Skill {
  readonly name: string;
  readonly description: string;
  readonly source: 'built_in' | 'customer';
  /** Only in the answer for a single skill. */
  readonly instructions?: string;
}

export interface Job {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly model: string;
  readonly created_at: string;
  readonly progress: number;
  readonly output: {
    readonly url: string;
    readonly content_type: string;
    readonly bytes: number;
  } | null;
  readonly error: { readonly message: string } | null;
  readonly cost: number;
}

export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly disabled: boolean;
  readonly requests_per_minute: number | null;
  readonly concurrent_requests: number | null;
  readonly credits: { readonly total: number; readonly held: number; readonly available: number };
  /** The running UTC month. */
  readonly current_period: {
    readonly requests: number;
    readonly failed_requests: number;
    readonly total_spend: number;
    readonly written_off: number;
  };
}

export interface Entry {
  readonly id: string | number;
  readonly type: string;
  readonly amount: number;
  readonly balance: number;
  readonly note: string;
  readonly created_at: string;
}

export interface Installation {
  readonly tenants: number;
  readonly keys: number;
  readonly credits: { readonly total: number; readonly held: number };
  readonly version: string;
  readonly uptime_seconds: number;
  readonly database: string;
}

export interface ProviderHealth {
  readonly name: string;
  /** Null if nobody called the endpoint. */
  readonly recent: {
    readonly window_seconds: number;
    readonly calls: number;
    readonly failed_calls: number;
    readonly failures: Readonly<Record<string, number>>;
  } | null;
  readonly endpoints: readonly {
    readonly model: string;
    readonly upstream_model: string;
    readonly circuit: Circuit;
    readonly failures_in_a_row: number;
    readonly first_byte_ms: number | null;
    readonly tokens_per_second: number | null;
  }[];
}

export interface Books {
  readonly running: number;
  readonly waiting: number;
  readonly journal_bytes: number;
}
