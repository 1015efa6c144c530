import type { RequestRecord } from '../records/request-record.ts';

/** The part of a request's record that telemetry uses: no content and no secrets. */
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

/** Returns the time to the first output, failed attempts included, or null without output. */
export function firstTokenMs({ attempts, firstByteMs }: EndedRequest): number | null {
  if (firstByteMs === null) return null;
  let sum = 0;
  for (const { ms } of attempts) sum += ms;
  return sum;
}
