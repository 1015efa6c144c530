import type { TrafficMode } from '../core/caller.ts';
import type { OperationName } from '../core/request-info.ts';
import type { Units, Usage } from '../core/usage.ts';
import type { Charges } from '../money/price/fee-kinds.ts';
import type { Margin } from '../money/price/margin.ts';
import type { PriceStrings } from '../money/price/price-list.ts';

/** One row of the request log, written when the request has ended. */
export interface RequestRecord {
  readonly requestId: string;
  readonly tenantId: string;
  readonly keyId: string;
  readonly operation: OperationName;
  /** The job that the request belongs to. */
  readonly jobId?: string | undefined;
  /** The requested alias, or the first one if the request lists several. */
  readonly requestedModel: string;
  /** The alias and provider that answered; null if none did. */
  readonly model: string | null;
  readonly provider: string | null;
  readonly status: 'success' | 'error';
  /** The error symbol of a failed request. */
  readonly error: string | null;
  /** The error message, if no provider was called. It quotes nothing from the request. */
  readonly refusal?: string | undefined;
  readonly trafficMode: TrafficMode;
  readonly usage: Usage;
  /** Quantities other than tokens, if a price needs them. */
  readonly units?: Units | undefined;
  /** True if the gateway counted the tokens because the provider didn't. */
  readonly usageEstimated: boolean;
  readonly charges: Charges;
  /**
   * The prices of the charge, with the plan's margin, stored so that a receipt stays correct after
   * they change. If they depend on the prompt length, the usage determines which ones applied.
   */
  readonly prices: PriceStrings | null;
  /** When the list prices took effect, in epoch milliseconds. Absent if they have no start time. */
  readonly pricedFrom?: number | undefined;
  /** The plan that led from list prices to `prices`. Absent if list prices were charged. */
  readonly margin?: RecordedMargin | undefined;
  readonly searches: number;
  readonly skills: readonly string[];
  readonly note: string | null;
  readonly finishReason: string | null;
  readonly streamed: boolean;
  readonly cancelled: boolean;
  readonly cacheHit: boolean;
  /** Milliseconds from arrival to the first byte of the answer. */
  readonly firstByteMs: number | null;
  /** Milliseconds from arrival to the end of the answer. */
  readonly durationMs: number;
  readonly endUser: string | null;
  readonly attempts: readonly AttemptRecord[];
  /** Epoch milliseconds of arrival. */
  readonly createdAt: number;
}

export interface RecordedMargin extends Margin {
  readonly list: PriceStrings;
}

/** One attempt of a request, as the log stores it. */
export interface AttemptRecord {
  readonly provider: string;
  /** The name of the key, if the provider has several. Only for operators. */
  readonly key?: string | undefined;
  readonly model: string;
  /** True if the tenant's own provider key was used; left out for the operator's. */
  readonly own_account?: boolean | undefined;
  /** The fields of the request that an answering provider didn't receive. */
  readonly dropped?: readonly string[] | undefined;
  /** `answered`, `client_disconnected`, or the kind of failure. */
  readonly outcome: string;
  readonly status: number | null;
  readonly message: string | null;
  readonly ms: number;
}
