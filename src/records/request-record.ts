import type { TrafficMode } from '../core/caller.ts';
import type { OperationName } from '../core/request-info.ts';
import type { Units, Usage } from '../core/usage.ts';
import type { PriceTexts } from '../money/price/price-list.ts';
import type { AttemptRecord } from './attempt-record.ts';

/** What one request was, cost and came to: one row of the log, written when it has ended. */
export interface RequestRecord {
  readonly requestId: string;
  readonly tenantId: string;
  readonly keyId: string;
  readonly operation: OperationName;
  /** The job that it was a piece of. */
  readonly jobId?: string | undefined;
  /** The alias the client asked for first. */
  readonly requestedModel: string;
  /** The alias and provider that answered; null when nobody did. */
  readonly model: string | null;
  readonly provider: string | null;
  readonly status: 'success' | 'error';
  /** Symbol of the error table, for failed requests. */
  readonly error: string | null;
  /** What its client was told, if no provider was asked; without words of the request. */
  readonly refusal?: string | undefined;
  readonly trafficMode: TrafficMode;
  readonly usage: Usage;
  /** What was counted besides tokens, where a price asks for it. */
  readonly units?: Units | undefined;
  /** True when we counted because the upstream did not. */
  readonly usageEstimated: boolean;
  readonly charges: Charges;
  /**
   * The prices the charge was made with, so that it can be explained after they change. Where they
   * have steps, the usage beside them says which one it was.
   */
  readonly prices: PriceTexts | null;
  readonly searches: number;
  readonly skills: readonly string[];
  readonly note: string | null;
  readonly finishReason: string | null;
  readonly streamed: boolean;
  readonly cancelled: boolean;
  readonly cacheHit: boolean;
  /** Milliseconds to the first byte of the answer, and to its end. */
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly endUser: string | null;
  readonly attempts: readonly AttemptRecord[];
  /** Epoch milliseconds of arrival. */
  readonly createdAt: number;
}

/** Whole credits, one field per fee line. */
export interface Charges {
  readonly modelCharge: number;
  readonly byokPlatformFee: number;
  readonly managedToolFee: number;
  readonly agentRuntimeFee: number;
}

export const noCharges: Charges = {
  modelCharge: 0,
  byokPlatformFee: 0,
  managedToolFee: 0,
  agentRuntimeFee: 0,
};

export function totalCharge(charges: Charges): number {
  return (
    charges.modelCharge + charges.byokPlatformFee + charges.managedToolFee + charges.agentRuntimeFee
  );
}

/** The fee lines under the names that logs, receipts and statements give them. */
export function feesOf(charges: Charges) {
  return {
    model_charge: charges.modelCharge,
    byok_platform_fee: charges.byokPlatformFee,
    managed_tool_fee: charges.managedToolFee,
    agent_runtime_fee: charges.agentRuntimeFee,
  };
}
