/**
 * Sends one request at a time with short pauses and measures their latency until it is stopped. It
 * runs in its own process, so that an attack by the parent process doesn't delay it.
 */
const [url = '', key = '', body = ''] = process.argv.slice(2);
const pauseMs = 10;
/** A request that takes longer counts with this time. */
const requestMsMax = 60_000;

let times: number[] = [];
let failed = 0;

export interface BystanderResult {
  readonly requests: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

function takeResult(): BystanderResult {
  const sorted = times.toSorted((a, b) => a - b);
  const percentile = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  const result = {
    requests: sorted.length,
    failed,
    p50Ms: percentile(0.5),
    p99Ms: percentile(0.99),
  };
  times = [];
  failed = 0;
  return result;
}

process.on('message', () => process.send?.(takeResult()));

const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
for (;;) {
  const startedAt = performance.now();
  try {
    const signal = AbortSignal.timeout(requestMsMax);
    const response = await fetch(url, { method: 'POST', headers, body, signal });
    await response.text();
    if (!response.ok) failed += 1;
  } catch {
    failed += 1;
  }
  times.push(performance.now() - startedAt);
  await Bun.sleep(pauseMs);
}
