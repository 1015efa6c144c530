// Many streaming clients in a separate process, so that their CPU time and memory don't count as
// the gateway's. Usage: `bun load-client.ts <base URL> <key> <streams>`. Prints a line when all
// streams are open, and then the report.

export interface StreamReport {
  /** The client's name, sent as `user`. */
  readonly user: string;
  readonly requestId: string;
  /** The answer's body exactly as received. */
  readonly body: string;
  /** When the client disconnected, in Unix milliseconds. Null if it read to the end. */
  readonly disconnectedAt: number | null;
}

/** Every tenth client disconnects in the middle of its stream. */
export const disconnectEvery = 10;

/** Clients per wave. The gateway's socket queues 512 connections. Others wait a second. */
const waveSize = 200;

/** Runs the clients in another process. `onOpen` is called when all streams are open. */
export async function runLoadClient(
  order: { readonly url: string; readonly key: string; readonly streams: number },
  onOpen: () => Promise<void>,
): Promise<readonly StreamReport[]> {
  const args = [order.url, order.key, String(order.streams)];
  const child = Bun.spawn([process.execPath, import.meta.path, ...args], {
    // The runtime reads its limit, 256 concurrent requests by default, before the program starts.
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
  // The child runs this file, so its report needs no validation.
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

/** Resolves when the first bytes have arrived. `finished` resolves when the stream has ended. */
async function openStream(url: string, key: string, number: number) {
  const user = `client-${number}`;
  const disconnects = number % disconnectEvery === 0;
  const controller = new AbortController();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: disconnects ? 'test/endless' : 'test/chat',
      user,
      stream: true,
      messages: [{ role: 'user', content: 'Say something long.' }],
    }),
    signal: controller.signal,
  });
  if (response.status !== 200) throw new Error(`${user} was refused: ${await response.text()}`);
  const reader = response.body?.getReader();
  if (!reader) throw new Error(`${user} received no body.`);
  const first = await reader.read();
  // Clients disconnect after different words, never after the first or last one.
  const disconnectAfter = disconnects ? `" w${5 + ((number / disconnectEvery) % 20)}"` : null;
  const decoder = new TextDecoder();
  const finish = async (): Promise<StreamReport> => {
    let body = decoder.decode(first.value, { stream: true });
    let disconnectedAt: number | null = null;
    for (;;) {
      if (disconnectAfter !== null && body.includes(disconnectAfter)) {
        disconnectedAt = performance.timeOrigin + performance.now();
        controller.abort();
        break;
      }
      const { done, value } = await reader.read();
      if (done) break;
      body += decoder.decode(value, { stream: true });
    }
    const requestId = response.headers.get('x-request-id') ?? '';
    return { user, requestId, body, disconnectedAt };
  };
  return { finished: finish() };
}

if (import.meta.main) {
  const [url = '', key = '', streams = '0'] = process.argv.slice(2);
  await runClients(url, key, Number(streams));
}
