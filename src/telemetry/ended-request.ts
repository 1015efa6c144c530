import type { RequestRecord } from '../records/request-record.ts';

/** What telemetry needs of a request that has ended: nothing of its words, and no secret. */
export interface EndedRequest
  extends Pick<
    RequestRecord,
    | 'requestId'
    | 'tenantId'
    | 'keyId'
    | 'operation'
    | 'requestedModel'
    | 'model'
    | 'provider'
    | 'status'
    | 'error'
    | 'trafficMode'
    | 'usage'
    | 'usageEstimated'
    | 'charges'
    | 'finishReason'
    | 'streamed'
    | 'cancelled'
    | 'cacheHit'
    | 'firstByteMs'
    | 'durationMs'
  > {
  readonly attempts: readonly EndedAttempt[];
}

export type EndedAttempt = Omit<RequestRecord['attempts'][number], 'message'>;

/** Until the first words came, failed attempts included; null when there were none. */
export function firstTokenMs({ attempts, firstByteMs }: EndedRequest): number | null {
  if (firstByteMs === null) return null;
  let sum = 0;
  for (const { ms } of attempts) sum += ms;
  return sum;
}
