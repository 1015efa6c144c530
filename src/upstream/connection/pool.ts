import { isIP } from 'node:net';
import { abandonedConnectionsMax, idleConnectionsMax } from '../../core/bounds.ts';
import { hostIn, portIn } from '../../core/network-address.ts';
import { Connection, type ConnectionOwner, type Destination } from './connection.ts';
import { ConnectionError } from './response.ts';
import type { RoundTrip } from './round-trip.ts';

/** Servers don't close a connection for idling when it was used this recently. */
const recentlyUsedMs = 250;

/**
 * Some servers close every connection after its response without announcing it. A request sent at
 * that moment is lost. After two such closes in a row, connections aren't reused for a while.
 */
const closedEarlyMax = 2;
const noReuseMs = 30_000;

/**
 * Bytes that a server sends after a response could be mistaken for the next response, possibly
 * another tenant's. Requests to such a server don't share connections for this long.
 */
const excessBytesMs = 600_000;

interface ConnectionReporter {
  /**
   * Called for servers that send excess bytes, which slow down calls until the operator fixes the
   * cause.
   */
  dataAfterAnswer(server: string): void;
  /** Called when a request to this provider is sent again. */
  requestReplayed(provider: string): void;
}

let reporter: ConnectionReporter | undefined;

export function setConnectionReporter(to: ConnectionReporter): void {
  reporter = to;
}

/** How often expired idle connections are closed. */
const sweepMs = 10_000;

/**
 * The connections to one server. The most recently used connection is reused first, so the extra
 * connections of a busy minute expire.
 */
export class ConnectionPool implements ConnectionOwner {
  readonly destination: Destination;
  readonly idleMsMin: number;
  roundTripMs: number;
  /** The most recently used connection comes last. Some may have been closed by the server. */
  readonly #idle: Connection[] = [];
  /** Connections that were given up while opening and haven't failed or opened yet. */
  #abandoned = 0;
  /** How many connections were closed early since a connection was last reused. */
  #closedEarly = 0;
  #reusableFrom = 0;
  excessBytesUntil = 0;
  #sweeper: ReturnType<typeof setInterval> | undefined;

  constructor(destination: Destination, idleMsMin = recentlyUsedMs) {
    this.destination = destination;
    this.idleMsMin = idleMsMin;
    // The time to connect to a host name includes the DNS lookup, so it isn't a round trip. With
    // TLS, the handshake is measured, too.
    const isMeasurable = destination.isSecure || isIP(destination.hostname) > 0;
    this.roundTripMs = isMeasurable ? Number.POSITIVE_INFINITY : 0;
  }

  start(trip: RoundTrip): void {
    // The server may have closed the idle connections without this process having noticed yet.
    if (this.#idle.at(-1)?.wasIdle) afterNextPoll(() => this.#start(trip));
    else this.#start(trip);
  }

  #start(trip: RoundTrip): void {
    // The round trip was canceled before it started.
    if (!trip.request) return;
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      if (idle.isUsable) {
        idle.startTrip(trip);
        return;
      }
      idle.close();
    }
    this.#sendOnNewConnection(trip);
  }

  measuredRoundTrip(ms: number): void {
    if (ms < this.roundTripMs) this.roundTripMs = ms;
  }

  sendAgain(trip: RoundTrip): void {
    reporter?.requestReplayed(trip.provider);
    this.#sendOnNewConnection(trip);
  }

  #sendOnNewConnection(trip: RoundTrip): void {
    if (this.#abandoned < abandonedConnectionsMax) new Connection(this, trip);
    else trip.fail(new ConnectionError('ETIMEDOUT', "The server isn't accepting connections."));
  }

  /** Counts the connection until the system gives up opening it. The runtime can't abort it. */
  abandonOpening(opening: Promise<unknown>): void {
    this.#abandoned += 1;
    const onSettled = () => {
      this.#abandoned -= 1;
    };
    opening.then(onSettled, onSettled);
  }

  connectionReused(): void {
    this.#closedEarly = 0;
  }

  closedEarly(): void {
    this.#closedEarly += 1;
    // The server is about to close the idle connections, too.
    if (this.#closedEarly >= closedEarlyMax) this.#dropIdle(noReuseMs);
  }

  receivedExcessBytes(): void {
    const now = performance.now();
    const { hostname, port } = this.destination;
    // Every response may be followed by excess bytes, so report them once until they stop.
    if (now >= this.excessBytesUntil) reporter?.dataAfterAnswer(`${hostname}:${port}`);
    this.excessBytesUntil = now + excessBytesMs;
    this.#dropIdle(excessBytesMs);
  }

  #dropIdle(ms: number): void {
    this.#reusableFrom = Math.max(this.#reusableFrom, performance.now() + ms);
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  returnIdle(connection: Connection): void {
    if (performance.now() < this.#reusableFrom) {
      connection.close();
      return;
    }
    this.#idle.push(connection);
    if (this.#idle.length > idleConnectionsMax) this.#idle.shift()?.close();
    if (this.#sweeper !== undefined) return;
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs);
    this.#sweeper.unref();
  }

  #sweep(): void {
    for (const connection of this.#idle.splice(0)) {
      if (connection.isUsable) this.#idle.push(connection);
      else connection.close();
    }
    if (this.#idle.length > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }
}

/**
 * Calls back once the runtime has polled all sockets. A single immediate may run before the poll.
 */
function afterNextPoll(run: () => void): void {
  setImmediate(() => setImmediate(run));
}

/**
 * One pool for each origin, whatever the API key. Bounded by the configured providers: addresses
 * chosen by tenants don't use pools.
 */
const byOrigin = new Map<string, ConnectionPool>();

export function poolFor(baseUrl: string): ConnectionPool {
  const url = new URL(baseUrl);
  const known = byOrigin.get(url.origin);
  if (known) return known;
  const isSecure = url.protocol === 'https:';
  const pool = new ConnectionPool({ hostname: hostIn(url), port: portIn(url), isSecure });
  byOrigin.set(url.origin, pool);
  return pool;
}
