/** The fake upstream inside this process. */

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
  /** By default, or if zero, any free port. */
  readonly port?: number;
  readonly hostname?: string;
  /** Keeps neither headers, bodies nor texts: for load tests. */
  readonly lean?: boolean;
}

export interface FakeUpstream {
  /** Without a path: an OpenAI-style base URL is `${url}/v1`. */
  readonly url: string;
  readonly port: number;
  /** Oldest first. */
  readonly requests: readonly LoggedRequest[];
  /** Totals over all requests, also those that the book no longer keeps. */
  summary(): RequestTotals;
  /** `key` is an upstream model name, a path such as '/v1/models', or '*' for anything else. */
  script(key: string, behavior: Behavior | readonly Behavior[]): void;
  /** Lets every answer that waits at this gate, now or later, go on. */
  open(gate: string): void;
  /** Waits until `look` finds something in the book and gives it back. */
  until<Found>(
    look: (entries: readonly LoggedRequest[]) => Found | undefined | null | false,
    timeoutMs?: number,
  ): Promise<Found>;
  /** Forgets scripts, gates and the book, and drops the answers still under way. */
  reset(): void;
  /** Closes the port and every connection. */
  stop(): void;
}

/**
 * Bun queues at most 512 connections per listener; the next client retries after a second. Several
 * listeners on one port take the rush of a load test. A port asked for by number gets one listener,
 * so that a second fake on it fails instead of sharing it.
 */
const listenersPerPort = 4;

export function startFakeUpstream(options: FakeUpstreamOptions = {}): FakeUpstream {
  const { hostname = '127.0.0.1', port = 0, lean = false } = options;
  const book = new RequestLog(lean);
  const scripts = new Scripts();
  const ticker = new Ticker();
  const gates = new Gates(ticker);
  const sockets = new Set<Socket<Connection>>();

  const house: ConnectionHost = {
    book,
    controlBook: new RequestLog(true),
    ticker,
    onOpen: (gate, run) => gates.onOpen(gate, run),
    earlyScript: (path) => scripts.early(path),
    nextScript: (path, model) => scripts.next(path, model),
    control: (path, body) => control(upstream, book, path, body),
  };

  const socket: SocketHandler<Connection> = {
    open(opened) {
      opened.data = new Connection(opened, house);
      sockets.add(opened);
    },
    data: (from, bytes) => from.data.data(bytes),
    drain: (writable) => writable.data.drain(),
    close(closed) {
      sockets.delete(closed);
      closed.data.gone();
    },
    error(_socket, error) {
      throw error;
    },
  };
  const listen = (at: number) => {
    // Bun.listen accepts `reusePort`, although its types lack it.
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
      return book.entries;
    },
    summary: () => book.summary(),
    script(key, behavior) {
      scripts.set(key, 'answer' in behavior ? [behavior] : behavior);
    },
    open: (gate) => gates.open(gate),
    until: (look, timeoutMs) => book.until(look, timeoutMs),
    reset() {
      for (const one of sockets) if (one.data.busy) one.terminate();
      scripts.clear();
      gates.reset();
      book.reset();
    },
    stop() {
      for (const listener of listeners) listener.stop(true);
    },
  };
  return upstream;
}

/** A base URL where connections are refused: nothing listens there, and nothing will by chance. */
export function refusingUrl(): string {
  return `http://127.0.0.1:${freePort()}`;
}
