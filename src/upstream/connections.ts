import { codeOf } from './pinned-call.ts';

/** No server closes a connection that was in use so recently: what breaks then was heard. */
const idleMsMin = 250;

/** A closed connection says so within a round trip; what breaks later was heard, too. */
const unheardMsMax = 1_000;

/**
 * The connections to one server. Servers close those that were idle for some seconds, and may do
 * so at the very moment when the next request goes out: it dies unheard, and the runtime sends
 * anything again but a POST. So do we, once and on a new connection. A request that may have been
 * heard is not sent again.
 */
export class Connections {
  readonly #idleMsMin: number;
  /**
   * When those that may wait for us were last in use, the latest at the end: that one is taken
   * next. Never more than were needed at once.
   */
  readonly #usedAt: number[] = [];

  constructor(idleMs = idleMsMin) {
    this.#idleMsMin = idleMs;
  }

  async post(url: string, call: BunFetchRequestInit): Promise<Response> {
    // A body that is read while it is sent has a connection of its own, and cannot be sent again.
    if (call.keepalive === false) return fetch(url, call);
    const usedAt = this.#usedAt.pop() ?? Number.POSITIVE_INFINITY;
    const sentAt = performance.now();
    try {
      const response = await fetch(url, call);
      if (response.headers.get('connection') !== 'close') this.#usedAt.push(performance.now());
      return response;
    } catch (thrown) {
      const wasIdle = sentAt - usedAt >= this.#idleMsMin;
      const isUnheard = performance.now() - sentAt <= unheardMsMax;
      if (!wasIdle || !isUnheard || codeOf(thrown) !== 'ECONNRESET') throw thrown;
    }
    return fetch(url, { ...call, keepalive: false });
  }
}

/** By origin: the runtime shares them whatever the key. The addresses are the operator's. */
const known = new Map<string, Connections>();

export function connectionsTo(baseUrl: string): Connections {
  const { origin } = new URL(baseUrl);
  const connections = known.get(origin) ?? new Connections();
  known.set(origin, connections);
  return connections;
}
