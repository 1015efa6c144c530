/** The upstream and the load generator of `scale.ts`, each in a process of its own. */

export const clientKey = 'sk-tg-bench-0123456789abcdef0123456789abcdef';

const body = JSON.stringify({
  model: 'bench/chat',
  temperature: 0.7,
  max_tokens: 100,
  messages: [
    { role: 'system', content: 'You are a helpful assistant.' },
    { role: 'user', content: 'Name three rivers that flow into the Black Sea.' },
  ],
});

const answer = JSON.stringify({
  id: 'chatcmpl-C2P2HtMJhPkWjQ2adKerkdVilXmRL',
  created: 1_754_688_929,
  model: 'large',
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'The Danube, the Dnieper and the Don.' },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 27, completion_tokens: 12, total_tokens: 39 },
});

export function serveUpstream(port: number): void {
  const headers = { 'content-type': 'application/json' };
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port,
    reusePort: true,
    idleTimeout: 0,
    async fetch(request) {
      await request.arrayBuffer();
      return new Response(answer, { headers });
    },
  });
  process.stdout.write(`port ${server.port}\n`);
}

export interface LoadResult {
  readonly served: number;
  /** Answers by status, without those that were served. */
  readonly others: Readonly<Record<string, number>>;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Limits how many requests start per second. */
class Pace {
  readonly #perMs: number;
  readonly #startedAt = performance.now();
  #started = 0;
  readonly #idle: (() => void)[] = [];

  constructor(perSecond: number) {
    this.#perMs = perSecond / 1000;
    if (perSecond > 0) setInterval(() => this.#release(), 1).unref();
  }

  start(send: () => void): void {
    if (this.#perMs > 0 && this.#isAhead()) this.#idle.push(send);
    else {
      this.#started += 1;
      send();
    }
  }

  #isAhead(): boolean {
    return this.#started >= (performance.now() - this.#startedAt) * this.#perMs;
  }

  #release(): void {
    while (this.#idle.length > 0 && !this.#isAhead()) {
      this.#started += 1;
      this.#idle.shift()?.();
    }
  }
}

interface LoadOptions {
  readonly url: string;
  readonly ms: string;
  /** Requests per second, or 0 for as many as possible. */
  readonly rate: string;
  readonly connections: string;
}

/**
 * Sends requests on raw connections, because an HTTP client would need as much CPU as the gateway.
 */
export async function sendLoad(options: LoadOptions): Promise<void> {
  const { hostname, port } = new URL(options.url);
  const request = Buffer.from(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}:${port}\r\n` +
      `content-type: application/json\r\nauthorization: Bearer ${clientKey}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const until = performance.now() + Number(options.ms);
  const pace = new Pace(Number(options.rate));
  const times: number[] = [];
  const others: Record<string, number> = {};
  let served = 0;
  const count = (status: string) => {
    if (status === '200') served += 1;
    else others[status] = (others[status] ?? 0) + 1;
  };
  const connection = () =>
    new Promise<void>((ended) => {
      let startedAt = 0;
      let received = '';
      const send = (socket: Bun.Socket) => {
        if (performance.now() >= until) {
          socket.end();
          return ended();
        }
        pace.start(() => {
          startedAt = performance.now();
          received = '';
          socket.write(request);
        });
      };
      const fail = (reason: string) => {
        count(reason);
        // A short pause, so that a gateway that is gone doesn't keep this process busy.
        setTimeout(() => void connection().then(ended), 50);
      };
      Bun.connect({
        hostname,
        port: Number(port),
        socket: {
          open: send,
          data(socket, bytes) {
            received += bytes.toString('latin1');
            const head = received.indexOf('\r\n\r\n');
            const length = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
            if (head < 0 || received.length < head + 4 + Number(length ?? 0)) return;
            times.push(performance.now() - startedAt);
            count(length === undefined ? 'no length' : received.slice(9, 12));
            send(socket);
          },
          close() {
            if (performance.now() < until) fail('closed');
            else ended();
          },
        },
      }).catch(() => fail('refused'));
    });
  await Promise.race([
    Promise.all(Array.from({ length: Number(options.connections) }, connection)),
    Bun.sleep(Number(options.ms) + 5_000),
  ]);
  times.sort((a, b) => a - b);
  const at = (share: number) => times[Math.floor(times.length * share)] ?? 0;
  const result: LoadResult = { served, others, p50Ms: at(0.5), p99Ms: at(0.99) };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  process.exit(0);
}
