import { codeOf } from './pinned-call.ts';

/** No server closes a connection that was in use so recently: what breaks then was heard. */
const idleMsMin = 250;

/** A closed connection says so within a round trip; what breaks later was heard, too. */
const unheardMsMax = 1_000;

/** Whoever reads an answer to its end knows when the connection is free again. */
export interface Borrower {
  readonly signal: AbortSignal;
  lender?: Connections | undefined;
}

/**
 * The connections to one server. Servers close those that were idle for some seconds, and may do
 * so at the very moment when the next request goes out: it dies unheard, and the runtime sends
 * anything again but a POST. So do we, once and on a new connection. A request that may have been
 * heard is not sent again, as far as can be told: nobody tells us of a connection that was closed
 * in good order while it was idle.
 */
export class Connections {
  readonly #idleMsMin: number;
  /**
   * Since when those that wait for us do, the latest at the end: that one is mostly taken next.
   * Never more than were needed at once.
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
      const isUnheard = performance.now() - sentAt <= unheardMsMax;
      if (!wasIdle || !isUnheard || codeOf(thrown) !== 'ECONNRESET') throw thrown;
    }
    return fetch(url, { ...call, keepalive: false });
  }

  /** An answer was read to its end, and its connection waits for the next request. */
  takeBack(): void {
    this.#idleSince.push(performance.now());
  }
}

/** An answer that does not say how long it is ends with its connection. */
function isKept({ headers }: Response): boolean {
  const isFramed = headers.has('content-length') || headers.has('transfer-encoding');
  return isFramed && headers.get('connection')?.toLowerCase() !== 'close';
}

/** By origin: the runtime shares them whatever the key. The addresses are the operator's. */
const known = new Map<string, Connections>();

export function connectionsTo(baseUrl: string): Connections {
  const { origin } = new URL(baseUrl);
  const connections = known.get(origin) ?? new Connections();
  known.set(origin, connections);
  return connections;
}
