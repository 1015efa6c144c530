/**
 * Sends requests over keep-alive connections and measures their latency. It runs in its own
 * process, so that its CPU time isn't counted as the server's. The parent process sends one task
 * at a time.
 */
export interface LoadTask {
  readonly url: string;
  readonly key: string;
  readonly body: string;
  readonly requests: number;
  readonly concurrency: number;
  /** The percentage of clients that disconnect during their stream. */
  readonly disconnectPercent: number;
}

export interface LoadResult {
  readonly failed: number;
  /** The number of reads for all responses. If it is low, chunks were merged. */
  readonly reads: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Clients disconnect after this many reads. */
const readsBeforeDisconnect = 3;

async function sendRequest(task: LoadTask, disconnects: boolean): Promise<number> {
  const controller = new AbortController();
  const response = await fetch(`${task.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${task.key}` },
    body: task.body,
    signal: controller.signal,
  });
  if (!response.ok || !response.body)
    throw new Error(`${response.status} ${await response.text()}`);
  let reads = 0;
  const reader = response.body.getReader();
  while (!(await reader.read()).done) {
    reads += 1;
    if (disconnects && reads === readsBeforeDisconnect) {
      await reader.cancel();
      controller.abort();
      break;
    }
  }
  return reads;
}

async function run(task: LoadTask): Promise<LoadResult> {
  const times: number[] = [];
  let [next, failed, reads] = [0, 0, 0];
  const client = async () => {
    while (next < task.requests) {
      const disconnects = next++ % 100 < task.disconnectPercent;
      const startedAt = performance.now();
      try {
        const readCount = await sendRequest(task, disconnects);
        reads += readCount;
      } catch (error) {
        if (failed++ === 0) process.stderr.write(`First failed request: ${error}\n`);
      }
      times.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: task.concurrency }, client));
  times.sort((a, b) => a - b);
  const percentile = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0;
  return { failed, reads, p50Ms: percentile(0.5), p99Ms: percentile(0.99) };
}

process.on('message', (task: LoadTask) => {
  void run(task).then((result) => process.send?.(result));
});
