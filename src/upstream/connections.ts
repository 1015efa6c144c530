import { codeOf } from './guard/pinned-call.ts';

/** No server closes a connection that was used so recently: if it breaks, the request was read. */
const idleMsMin = 250;

/** A closed connection says so within a round trip: if it breaks later, the request was read. */
const unreadMsMax = 1_000;

/** Whoever reads an answer to its end knows when the connection is free again. */
export interface Borrower {
  readonly signal: AbortSignal;
  lender?: Connections | undefined;
}

/**
 * The connections to one server. Servers close those that were idle for some seconds, and may do
 * so at the very moment when the next request goes out. That request is lost, and the runtime
 * repeats it unless it is a POST, as ours are. So we repeat it, once and on a new connection, but
 * only where it can hardly have been read: it broke right after it was sent, on a connection that
 * had been idle. Which one the runtime took is a guess: it does not say which were closed before.
 */
export class Connections {
  readonly #idleMsMin: number;
  /**
   * Since when each idle connection is idle, the most recent last: the runtime mostly takes that
   * one next. Never more entries than requests that ran at once.
   */
  readonly #idleSince: number[] = [];

  constructor(idleMs = idleMsMin) {
    this.#idleMsMin = idleMs;
  }

  /** Without a borrower, for answers that are read at once. */
  async post(url: string, call: BunFetchRequestInit, borrower?: Borrower): Promise<Response> {
    // A body that is read while it is sent has a connection of its own, and cannot be sent again.
    if (call.keepalive === false) return fetch(url, call);
    const idleSince = this.#idleSince.pop() ?? Number.POSITIVE_INFINITY;
    const sentAt = performance.now();
    try {
      const response = await fetch(url, call);
      if (!isKept(response)) return response;
      if (borrower) borrower.lender = this;
      else this.takeBack();
      return response;
    } catch (thrown) {
      const wasIdle = sentAt - idleSince >= this.#idleMsMin;
      const isUnread = performance.now() - sentAt <= unreadMsMax;
      if (!wasIdle || !isUnread || codeOf(thrown) !== 'ECONNRESET') throw thrown;
    }
    return fetch(url, { ...call, keepalive: false });
  }

  /** An answer was read to its end, and its connection waits for the next request. */
  takeBack(): void {
    this.#idleSince.push(performance.now());
  }
}

/** What every call says to a server that is configured, and not named by a client. */
export const usualHeaders: Readonly<Record<string, string>> = {
  // Compressed answers would have to be unpacked before they could be bounded.
  'accept-encoding': 'identity',
  'user-agent': 'tollgate',
};

/** How every such call is made. Some of these options the runtime knows and its types do not. */
export function usualOptions(url: string): BunFetchRequestInit {
  const options = {
    // Our own deadlines apply; the runtime's would cut image edits short.
    timeout: false,
    // A redirect would carry the credential to wherever the answer points.
    redirect: 'manual',
    decompress: false,
    // An environment variable must not be able to switch certificate checks off.
    ...(url.startsWith('https:') ? { tls: { rejectUnauthorized: true } } : {}),
    // A proxy set in the environment is for the world outside, not for this machine.
    ...(isLoopback(url) ? { proxy: false } : {}),
  };
  return options as BunFetchRequestInit;
}

function isLoopback(url: string): boolean {
  return /^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url);
}

/** An answer that does not say how long it is ends with its connection. */
function isKept({ headers }: Response): boolean {
  const isFramed = headers.has('content-length') || headers.has('transfer-encoding');
  return isFramed && headers.get('connection')?.toLowerCase() !== 'close';
}

/**
 * The runtime shares connections by origin, whatever the key. Never more than the operator has
 * configured addresses: those of tenants do not come here.
 */
const byOrigin = new Map<string, Connections>();

export function connectionsTo(baseUrl: string): Connections {
  const { origin } = new URL(baseUrl);
  const connections = byOrigin.get(origin) ?? new Connections();
  byOrigin.set(origin, connections);
  return connections;
}
