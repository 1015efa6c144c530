// The operator's limits for one key of a provider, as this process counts its requests.

export interface KeyUsage {
  readonly key: {
    /** Null: no limit. */
    readonly requestsPerMinute: number | null;
    readonly concurrentRequests: number | null;
  };
  running: number;
  /** The minute that `requests` counts. */
  minute: number;
  requests: number;
  requestsBefore: number;
  /** Until when the counts of all processes forbid another request. */
  fullUntil: number;
}

const minuteMs = 60_000;
/** How soon to try again if a key has as many requests as it may have at the same time. */
const busyMs = 1_000;

/** Returns how long the key's own limits forbid another request. */
export function limitMs(usage: KeyUsage, now: number): number {
  if (usage.fullUntil > now) return usage.fullUntil - now;
  const { concurrentRequests, requestsPerMinute } = usage.key;
  if (concurrentRequests !== null && usage.running >= concurrentRequests) return busyMs;
  if (requestsPerMinute === null) return 0;
  moveTo(usage, Math.floor(now / minuteMs));
  // Counts the part of the minute before that is less than a minute ago.
  const elapsedMs = now % minuteMs;
  const { requests, requestsBefore } = usage;
  const free = requestsPerMinute - requests;
  if (free <= 0) return minuteMs - elapsedMs;
  if (requestsBefore === 0) return 0;
  return Math.max(0, minuteMs * (1 - (free - 1) / requestsBefore) - elapsedMs);
}

function moveTo(usage: KeyUsage, minute: number): void {
  if (minute === usage.minute) return;
  usage.requestsBefore = minute === usage.minute + 1 ? usage.requests : 0;
  usage.requests = 0;
  usage.minute = minute;
}
