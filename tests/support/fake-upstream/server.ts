/** The fake upstream in this process. */

import type { Socket, SocketHandler } from 'bun';
import { freePort } from '../free-port.ts';
import type { Behavior } from './behavior.ts';
import { Connection, type ConnectionHost } from './connection.ts';
import { control } from './control.ts';
import { Gates } from './gates.ts';
import type { LoggedRequest, RequestTotals } from './logged-request.ts';
import { RequestLog } from './request-log.ts';
import { Scripts } from './scripts.ts';
import { Ticker } from './ticker.ts';

interface FakeUpstreamOptions {
  /** By default, any free port. */
  readonly port?: number;
  readonly hostname?: string;
  /** For load tests: doesn't store headers, bodies, or texts. */
  readonly lean?: boolean;
}

export interface FakeUpstream {
  /** A URL without a path. An OpenAI-style base URL is `${url}/v1`. */
  readonly url: string;
  readonly port: number;
  /** Oldest first. */
  readonly requests: readonly LoggedRequest[];
  /** Totals of all requests, including those beyond the log's limit. */
  summary(): RequestTotals;
  /** `key` is an upstream model name, a path such as '/v1/models', or '*' for all others. */
  script(key: string, behavior: Behavior | readonly Behavior[]): void;
  /** Opens a gate for all answers, those that wait now and those that come later. */
  open(gate: string): void;
  /** Waits until `look` returns a value for the logged requests, and returns it. */
  until<Found>(
    look: (entries: readonly LoggedRequest[]) => Found | undefined | null | false,
    timeoutMs?: number,
  ): Promise<Found>;
  /** Clears scripts, gates, and the log, and cancels running answers. */
  reset(): void;
  /** Closes the port and every connection. */
  stop(): void;
}

/**
 * Bun queues at most 512 connections per listener, and other clients retry after a second. A load
 * test needs several listeners on one port. A fixed port has only one listener, so that a second
 * fake on the same port fails instead of sharing the port.
 */
const listenersPerPort = 4;

export function startFakeUpstream(options: FakeUpstreamOptions = {}): FakeUpstream {
  const { hostname = '127.0.0.1', port = 0, lean = false } = options;
  const log = new RequestLog(lean);
  const scripts = new Scripts();
  const ticker = new Ticker();
  const gates = new Gates(ticker);
  const sockets = new Set<Socket<Connection>>();

  const host: ConnectionHost = {
    log,
    controlLog: new RequestLog(true),
    ticker,
    onOpen: (gate, run) => gates.onOpen(gate, run),
    earlyScript: (path) => scripts.early(path),
    nextScript: (path, model) => scripts.next(path, model),
    control: (path, body) => control(upstream, log, path, body),
  };

  const socket: SocketHandler<Connection> = {
    open(opened) {
      opened.data = new Connection(opened, host);
      sockets.add(opened);
    },
    data: (from, bytes) => from.data.data(bytes),
    drain: (writable) => writable.data.drain(),
    close(closed) {
      sockets.delete(closed);
      closed.data.connectionClosed();
    },
    error(_socket, error) {
      throw error;
    },
  };
  const listen = (at: number) => {
    // Bun.listen accepts `reusePort`, but its types lack it.
    const address = { hostname, port: at, reusePort: port === 0 };
    return Bun.listen<Connection>({ ...address, socket });
  };
  const first = listen(port);
  const listeners = [first];
  while (port === 0 && listeners.length < listenersPerPort) listeners.push(listen(first.port));

  const upstream: FakeUpstream = {
    url: `http://${hostname.includes(':') ? `[${hostname}]` : hostname}:${first.port}`,
    port: first.port,
    get requests() {
      return log.entries;
    },
    summary: () => log.summary(),
    script(key, behavior) {
      scripts.set(key, 'answer' in behavior ? [behavior] : behavior);
    },
    open: (gate) => gates.open(gate),
    until: (look, timeoutMs) => log.until(look, timeoutMs),
    reset() {
      for (const open of sockets) if (open.data.busy) open.terminate();
      scripts.clear();
      gates.reset();
      log.reset();
    },
    stop() {
      for (const listener of listeners) listener.stop(true);
    },
  };
  return upstream;
}

/** Returns a base URL that refuses connections. */
export function refusingUrl(): string {
  return `http://127.0.0.1:${freePort()}`;
}
