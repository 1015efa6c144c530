import { abandonedConnectionsMax, idleConnectionsMax } from '../../core/bounds.ts';
import { hostIn, portIn } from '../../core/network-address.ts';
import { Connection, type ConnectionOwner, type Destination } from './connection.ts';
import { ConnectionError } from './response.ts';
import type { RoundTrip } from './round-trip.ts';

/** No server closes a connection for being idle that was used this recently. */
const recentlyUsedMs = 250;

/**
 * Some servers close every connection after its answer and do not say so. A request that meets such
 * a close is lost: after two in a row, no connection is used again for a while.
 */
const closedEarlyMax = 2;
const noReuseMs = 30_000;

/**
 * What a server sends beyond its answer could be taken for the next answer, which may be another
 * tenant's. We and such a server do not agree where answers end: each request gets its own
 * connection.
 */
const overrunMs = 600_000;

let onOverrun: (server: string) => void = () => undefined;

/**
 * Overruns are reported: calls to the server become slower, and only the operator can find out why.
 */
export function setOverrunReporter(report: (server: string) => void): void {
  onOverrun = report;
}

/** How often connections that nobody uses any more are looked for. */
const sweepMs = 10_000;

/**
 * The connections to one server. The one that became idle last is used first, so that those which
 * only a busy minute needed expire.
 */
export class ConnectionPool implements ConnectionOwner {
  readonly destination: Destination;
  readonly idleMsMin: number;
  /** The most recently used last; some may be closed meanwhile. */
  readonly #idle: Connection[] = [];
  /** How many connections were given up while they were opening, and still are. */
  #abandoned = 0;
  /** How many connections were closed early since one was last used again. */
  #closedEarly = 0;
  #reusableFrom = 0;
  #overrunUntil = 0;
  #sweeper: ReturnType<typeof setInterval> | undefined;

  constructor(destination: Destination, idleMsMin = recentlyUsedMs) {
    this.destination = destination;
    this.idleMsMin = idleMsMin;
  }

  start(trip: RoundTrip): void {
    // The caller has hung up.
    if (!trip.request) return;
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      if (idle.isUsable) {
        idle.startTrip(trip);
        return;
      }
      idle.close();
    }
    this.sendOnNewConnection(trip);
  }

  sendOnNewConnection(trip: RoundTrip): void {
    if (this.#abandoned < abandonedConnectionsMax) new Connection(this, trip);
    else trip.fail(new ConnectionError('ETIMEDOUT', 'The server takes no connections.'));
  }

  /**
   * The runtime cannot end a connection before it is open; the system does, in some two minutes.
   */
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
    // The idle ones are about to be closed, too.
    if (this.#closedEarly >= closedEarlyMax) this.#dropIdle(noReuseMs);
  }

  overrun(): void {
    const now = performance.now();
    const { hostname, port } = this.destination;
    // Each answer may overrun: it is reported once, until it has stopped.
    if (now >= this.#overrunUntil) onOverrun(`${hostname}:${port}`);
    this.#overrunUntil = now + overrunMs;
    this.#dropIdle(overrunMs);
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
 * One for each origin, whatever the key. Never more than the operator has configured addresses:
 * those of tenants do not come here.
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
