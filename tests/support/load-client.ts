/**
 * Many streaming clients in a process of their own, so that neither their work nor their memory is
 * counted as the gateway's: `bun load-client.ts <base URL> <key> <streams>`. A line on the standard
 * output says when every stream is open, the next one how they went.
 */

export interface StreamReport {
  /** The client's name; the upstream sees it as `user`. */
  readonly user: string;
  readonly requestId: string;
  /** The answer's body exactly as received. */
  readonly body: string;
  /** When this client hung up, in milliseconds since 1970; null when it stayed to the end. */
  readonly leftAt: number | null;
}

/** Every tenth client hangs up in the middle. */
export const leaverEvery = 10;

/**
 * Clients per wave: the gateway's socket queues 512 connections, and the next one would wait a
 * second.
 */
const waveSize = 200;

/** Runs the clients as another process. `onOpen` is called when every stream has begun. */
export async function runLoadClient(
  order: { readonly url: string; readonly key: string; readonly streams: number },
  onOpen: () => Promise<void>,
): Promise<readonly StreamReport[]> {
  const words = [order.url, order.key, String(order.streams)];
  const child = Bun.spawn([process.execPath, import.meta.path, ...words], {
    // The runtime reads its limit of 256 requests at once before the program could raise it.
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '65336' },
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const decoder = new TextDecoder();
  let text = '';
  let opened: Promise<void> | undefined;
  for await (const bytes of child.stdout) {
    text += decoder.decode(bytes, { stream: true });
    if (text.includes('\n')) opened ??= onOpen();
  }
  await opened;
  const [, report = ''] = text.split('\n');
  if ((await child.exited) !== 0) throw new Error('The load client failed.');
  // The child runs this same file, so its report is not checked.
  return JSON.parse(report) as StreamReport[];
}

async function runClients(url: string, key: string, streams: number): Promise<void> {
  const running: Promise<StreamReport>[] = [];
  for (let first = 0; first < streams; first += waveSize) {
    const numbers = Array.from(
      { length: Math.min(waveSize, streams - first) },
      (_, i) => first + i,
    );
    const wave = numbers.map((number) => openStream(url, key, number));
    running.push(...(await Promise.all(wave)).map(({ finished }) => finished));
  }
  process.stdout.write('open\n');
  const reports = await Promise.all(running);
  process.stdout.write(JSON.stringify(reports));
}

/** Resolves when the first bytes have come; `finished` resolves at the end. */
async function openStream(url: string, key: string, number: number) {
  const user = `client-${number}`;
  const isLeaver = number % leaverEvery === 0;
  const leaving = new AbortController();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: isLeaver ? 'test/endless' : 'test/chat',
      user,
      stream: true,
      messages: [{ role: 'user', content: 'Say something long.' }],
    }),
    signal: leaving.signal,
  });
  if (response.status !== 200) throw new Error(`${user} was refused: ${await response.text()}`);
  const reader = response.body?.getReader();
  if (!reader) throw new Error(`${user} got no body`);
  const first = await reader.read();
  // Clients leave at different words, none at the first or the last.
  const leavesAfter = isLeaver ? `" w${5 + ((number / leaverEvery) % 20)}"` : null;
  const decoder = new TextDecoder();
  const finish = async (): Promise<StreamReport> => {
    let body = decoder.decode(first.value, { stream: true });
    let leftAt: number | null = null;
    for (;;) {
      if (leavesAfter !== null && body.includes(leavesAfter)) {
        leftAt = performance.timeOrigin + performance.now();
        leaving.abort();
        break;
      }
      const { done, value } = await reader.read();
      if (done) break;
      body += decoder.decode(value, { stream: true });
    }
    const requestId = response.headers.get('x-request-id') ?? '';
    return { user, requestId, body, leftAt };
  };
  return { finished: finish() };
}

if (import.meta.main) {
  const [url = '', key = '', streams = '0'] = process.argv.slice(2);
  await runClients(url, key, Number(streams));
}
