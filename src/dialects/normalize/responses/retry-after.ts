import { fieldsOf, textOf } from '../../../core/json.ts';

/** The longest plausible wait: no rate limit lasts longer than a day. */
const waitSecondsMax = 86_400;

const unitSeconds = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Reads `12ms`, `1.5s`, `6m0s`, `1h2m`, or plain seconds. Returns null for anything else. */
function readDuration(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d{1,12}(?:\.\d{1,12})?$/.test(trimmed)) return Number(trimmed);
  if (!/^(?:\d{1,12}(?:\.\d{1,12})?(?:ms|[smhd]))+$/.test(trimmed)) return null;
  let seconds = 0;
  for (const [, amount, unit] of trimmed.matchAll(/([\d.]+)(ms|[smhd])/g)) {
    seconds += Number(amount) * unitSeconds[unit as keyof typeof unitSeconds];
  }
  return seconds;
}

function readWait(text: string | null, nowMs: number): number | null {
  if (text === null) return null;
  const seconds = readDuration(text);
  if (seconds !== null) return seconds;
  // A date has letters or colons. Without this check, Date.parse reads "-5" as a year.
  const dateMs = /[a-z]|:/i.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(dateMs) ? null : Math.max(0, (dateMs - nowMs) / 1000);
}

/**
 * Returns how long to wait for OpenAI's request and token limits to reset. If any limit is reported
 * as exhausted, this is the longest wait of the exhausted limits. Otherwise, it is the shortest
 * wait.
 */
function readResets(headers: Pick<Headers, 'get'>, nowMs: number): number | null {
  const resets = ['requests', 'tokens'].flatMap((limit) => {
    const wait = readWait(headers.get(`x-ratelimit-reset-${limit}`), nowMs);
    const isExhausted = headers.get(`x-ratelimit-remaining-${limit}`)?.trim() === '0';
    return wait === null ? [] : [{ wait, isExhausted }];
  });
  if (resets.length === 0) return null;
  const exhausted = resets.filter(({ isExhausted }) => isExhausted).map(({ wait }) => wait);
  return exhausted.length > 0
    ? Math.max(...exhausted)
    : Math.min(...resets.map(({ wait }) => wait));
}

/** Returns Gemini's wait, which is in a RetryInfo in the error's details instead of a header. */
function readRetryInfo(details: readonly unknown[]): number | null {
  const delays = details.map((detail) => fieldsOf(detail).retryDelay);
  return readDuration(textOf(delays.find((delay) => delay !== undefined)));
}

export function readRetryAfter(
  headers: Pick<Headers, 'get'> | null,
  details: readonly unknown[],
  isRateLimit: boolean,
  nowMs: number,
): number | null {
  const exact = readDuration(headers?.get('retry-after-ms') ?? '');
  const wait =
    (exact === null ? null : exact / 1000) ??
    readWait(headers?.get('retry-after') ?? null, nowMs) ??
    readRetryInfo(details) ??
    (headers !== null && isRateLimit ? readResets(headers, nowMs) : null);
  return wait === null ? null : Math.min(wait, waitSecondsMax);
}
