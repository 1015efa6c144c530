import type { Usage } from '../core/usage.ts';

/** What telemetry needs of a request that has ended: nothing of its words, nothing of its keys. */
export interface EndedRequest {
  readonly requestId: string;
  readonly tenantId: string;
  readonly keyId: string;
  readonly operation: string;
  /** As the client wrote it, so anything. */
  readonly requestedModel: string;
  /** The alias and provider that answered; null when nobody did. */
  readonly model: string | null;
  readonly provider: string | null;
  readonly status: 'success' | 'error';
  readonly error: string | null;
  readonly trafficMode: string;
  readonly usage: Usage;
  readonly usageEstimated: boolean;
  readonly charges: {
    readonly modelCharge: number;
    readonly byokPlatformFee: number;
    readonly managedToolFee: number;
    readonly agentRuntimeFee: number;
  };
  readonly finishReason: string | null;
  readonly streamed: boolean;
  readonly cancelled: boolean;
  readonly cacheHit: boolean;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly attempts: readonly EndedAttempt[];
}

export interface EndedAttempt {
  readonly provider: string;
  readonly model: string;
  readonly outcome: string;
  readonly status: number | null;
  readonly ms: number;
}

export function creditsOf({ charges }: EndedRequest): number {
  return (
    charges.modelCharge + charges.byokPlatformFee + charges.managedToolFee + charges.agentRuntimeFee
  );
}

/** Until the first words came, failed attempts included; null when there were none. */
export function firstWordsMs({ attempts, firstByteMs }: EndedRequest): number | null {
  if (firstByteMs === null) return null;
  let sum = 0;
  for (const { ms } of attempts) sum += ms;
  return sum;
}
