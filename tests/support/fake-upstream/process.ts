/** The fake upstream in its own process, for load tests and tests that kill gateways. */

import { within } from '../wait-until.ts';
import type { Behavior } from './behavior.ts';
import { fromWire, type WireLog } from './control.ts';
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
    // The child exits when this pipe closes, even if this process is killed.
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const url = await within(firstLine(child.stdout), "the fake upstream's address", 60_000);

  const post = async (path: string, body: unknown): Promise<void> => {
    const reply = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  };
  // The child runs the same code, so its log needs no validation.
  const readLog = async (query: string): Promise<WireLog> => {
    const reply = await fetch(`${url}/__requests?full=1${query}`);
    return (await reply.json()) as WireLog;
  };

  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid,
    requests: async () => (await readLog('')).entries.map(fromWire),
    summary: async () => (await (await fetch(`${url}/__requests`)).json()) as RequestTotals,
    async script(key, behavior) {
      await post('/__script', { key, behaviors: [behavior].flat() });
    },
    open: (gate) => post('/__open', { gate }),
    until: (look, timeoutMs = defaultWaitMs) => untilFound(readLog, look, timeoutMs),
    reset: () => post('/__reset', {}),
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}

/** Reads the log until `look` returns a value, and again after each change. */
async function untilFound<Found>(
  readLog: (query: string) => Promise<WireLog>,
  look: (entries: readonly LoggedRequest[]) => Found | undefined | null | false,
  timeoutMs: number,
): Promise<Found> {
  const deadline = performance.now() + timeoutMs;
  let query = '';
  for (;;) {
    const { version, entries } = await readLog(query);
    const found = look(entries.map(fromWire));
    if (found !== undefined && found !== null && found !== false) return found;
    const leftMs = Math.ceil(deadline - performance.now());
    if (leftMs <= 0) throw new Error(`No matching request after ${timeoutMs} ms.`);
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
  throw new Error(`The fake upstream exited without printing its address: ${text}`);
}
