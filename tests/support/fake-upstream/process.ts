/** The fake upstream as a process of its own: for load tests and for tests that kill gateways. */

import type { Behavior } from './behavior.ts';
import { fromWire, type WireBook } from './control.ts';
import type { LoggedRequest, RequestTotals } from './logged-request.ts';
import { defaultWaitMs } from './request-log.ts';

export interface FakeUpstreamProcess {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  requests(): Promise<readonly LoggedRequest[]>;
  summary(): Promise<RequestTotals>;
  script(key: string, behavior: Behavior | readonly Behavior[]): Promise<void>;
  open(gate: string): Promise<void>;
  until<Found>(
    look: (entries: readonly LoggedRequest[]) => Found | undefined | null | false,
    timeoutMs?: number,
  ): Promise<Found>;
  reset(): Promise<void>;
  stop(): Promise<void>;
}

export async function startFakeUpstreamProcess(
  options: { readonly port?: number; readonly lean?: boolean } = {},
): Promise<FakeUpstreamProcess> {
  const program = new URL('./run.ts', import.meta.url).pathname;
  const flags = ['--port', String(options.port ?? 0), '--with-parent'];
  if (options.lean === true) flags.push('--lean');
  const child = Bun.spawn([process.execPath, program, ...flags], {
    // The child ends when this pipe closes, also by the death of this process.
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const url = await firstLine(child.stdout);

  const post = async (path: string, body: unknown): Promise<void> => {
    const reply = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  };
  // The child runs the same code, so its book is not checked.
  const readBook = async (query: string): Promise<WireBook> => {
    const reply = await fetch(`${url}/__book?full=1${query}`);
    return (await reply.json()) as WireBook;
  };

  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid,
    requests: async () => (await readBook('')).entries.map(fromWire),
    summary: async () => (await (await fetch(`${url}/__book`)).json()) as RequestTotals,
    async script(key, behavior) {
      await post('/__script', { key, behaviors: [behavior].flat() });
    },
    open: (gate) => post('/__open', { gate }),
    until: (look, timeoutMs = defaultWaitMs) => untilFound(readBook, look, timeoutMs),
    reset: () => post('/__reset', {}),
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}

/** Reads the book, and again each time it has changed. */
async function untilFound<Found>(
  readBook: (query: string) => Promise<WireBook>,
  look: (entries: readonly LoggedRequest[]) => Found | undefined | null | false,
  timeoutMs: number,
): Promise<Found> {
  const deadline = performance.now() + timeoutMs;
  let query = '';
  for (;;) {
    const { version, entries } = await readBook(query);
    const found = look(entries.map(fromWire));
    if (found !== undefined && found !== null && found !== false) return found;
    const leftMs = Math.ceil(deadline - performance.now());
    if (leftMs <= 0) throw new Error(`the book did not get there in ${timeoutMs} ms`);
    query = `&after=${version}&waitMs=${leftMs}`;
  }
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    const end = text.indexOf('\n');
    if (end >= 0) return text.slice(0, end);
  }
  throw new Error(`the fake upstream ended without its address: ${text}`);
}
