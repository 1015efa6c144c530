/**
 * Sends requests over kept-alive connections and measures what a client sees. It is a process of
 * its own, so that its work is not counted as the server's; its parent sends it one order at a
 * time.
 */
export interface LoadOrder {
  readonly url: string;
  readonly key: string;
  readonly body: string;
  readonly requests: number;
  readonly concurrency: number;
  /** This many of a hundred clients leave in the middle of their stream. */
  readonly leavingPercent: number;
}

export interface LoadResult {
  readonly failed: number;
  /** The number of reads for all answers: shows whether chunks were merged on the way. */
  readonly reads: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** A client that leaves does so after this many reads. */
const readsBeforeLeaving = 3;

async function ask(order: LoadOrder, leaves: boolean): Promise<number> {
  const controller = new AbortController();
  const response = await fetch(`${order.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${order.key}` },
    body: order.body,
    signal: controller.signal,
  });
  if (!response.ok || !response.body)
    throw new Error(`${response.status} ${await response.text()}`);
  let reads = 0;
  const reader = response.body.getReader();
  while (!(await reader.read()).done) {
    reads += 1;
    if (leaves && reads === readsBeforeLeaving) {
      await reader.cancel();
      controller.abort();
      break;
    }
  }
  return reads;
}

async function run(order: LoadOrder): Promise<LoadResult> {
  const times: number[] = [];
  let [next, failed, reads] = [0, 0, 0];
  const client = async () => {
    while (next < order.requests) {
      const leaves = next++ % 100 < order.leavingPercent;
      const startedAt = performance.now();
      try {
        const seen = await ask(order, leaves);
        reads += seen;
      } catch (error) {
        if (failed++ === 0) process.stderr.write(`The first failed request: ${error}\n`);
      }
      times.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: order.concurrency }, client));
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0;
  return { failed, reads, p50Ms: at(0.5), p99Ms: at(0.99) };
}

process.on('message', (order: LoadOrder) => {
  void run(order).then((result) => process.send?.(result));
});
