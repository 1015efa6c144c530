import { closeSync, openSync } from 'node:fs';
import { isIP } from 'node:net';
import type { Socket, SocketHandler } from 'bun';
import { failureCode } from '../../core/errors.ts';
import { withoutBlankLines } from './framing.ts';
import { ConnectionError } from './response.ts';
import type { RoundTrip, Transport } from './round-trip.ts';

/**
 * A server that closes the connection this soon after a request probably didn't mean the request.
 */
const justSentMs = 1_000;

/**
 * How late a busy process may notice an event. The measured round trip may be too long by as much.
 */
const lagMs = 5;

/** The server that a connection is opened to. */
export interface Destination {
  readonly hostname: string;
  readonly port: number;
  readonly isSecure: boolean;
  /** PEM certificates of the authorities to trust instead of the default ones. */
  readonly trustedCertificates?: string | undefined;
}

/** The part of the connection pool that a connection uses. */
export interface ConnectionOwner {
  readonly destination: Destination;
  /** Servers don't close connections that were idle for less than this. */
  readonly idleMsMin: number;
  /**
   * The shortest measured round trip to the server, or 0 if it can't be measured. The network's is
   * never longer.
   */
  readonly roundTripMs: number;
  /** Called with each measurement of a round trip. */
  measuredRoundTrip(ms: number): void;
  returnIdle(connection: Connection): void;
  /** Called when a connection has completed more than one round trip. */
  connectionReused(): void;
  /** Called when the server closed a connection right after a response, without announcing it. */
  closedEarly(): void;
  /** Called when the server sent bytes that belong to no response. */
  receivedExcessBytes(): void;
  /** Sends a request that the server didn't read again, over a new connection. */
  sendAgain(trip: RoundTrip): void;
  /** Called when a connection is given up before it is open. */
  abandonOpening(opening: Promise<unknown>): void;
}

/** One connection to a server. It carries one round trip at a time. */
export class Connection implements Transport {
  readonly #owner: ConnectionOwner;
  readonly #opening: Promise<unknown>;
  #socket: Socket<Connection> | undefined;
  #trip: RoundTrip | undefined;
  #unsent: Uint8Array[] = [];
  #isSecured = false;
  #isClosed = false;
  /** When the connection or the TLS handshake began. */
  #openedAt = performance.now();
  #sentAt = 0;
  /** When the last bytes of the request were written. */
  #writtenAt = 0;
  /**
   * True if the connection was dead before the request was written, so the server can't read it.
   */
  #wasDead = false;
  #usableUntil = 0;
  #idleSince = Number.POSITIVE_INFINITY;

  /** Opens a connection and sends the round trip's request as soon as it is open. */
  constructor(owner: ConnectionOwner, trip: RoundTrip) {
    this.#owner = owner;
    this.#trip = trip;
    trip.attach(this);
    const { hostname, port, isSecure, trustedCertificates } = owner.destination;
    const tls = isSecure && {
      // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
      rejectUnauthorized: true,
      // An IP address can't be a server name. The certificate is still checked against it.
      serverName: isIP(hostname) > 0 ? '' : hostname,
      // Each protocol name is prefixed with its length.
      ALPNProtocols: '\x08http/1.1',
      ...(trustedCertificates === undefined ? {} : { ca: trustedCertificates }),
    };
    const address = { hostname, port, ...(tls ? { tls } : {}) };
    this.#opening = Bun.connect({ ...address, data: this, socket: handlers });
    this.#opening.catch((reason: unknown) => this.closed(fileLimitError() ?? reason));
  }

  get isUsable(): boolean {
    return !this.#isClosed && performance.now() < this.#usableUntil;
  }

  /** Returns whether the server may have closed the connection for idling. */
  get wasIdle(): boolean {
    return performance.now() - this.#idleSince >= this.#owner.idleMsMin;
  }

  startTrip(trip: RoundTrip): void {
    this.#trip = trip;
    trip.attach(this);
    this.#socket?.ref();
    this.send();
  }

  opened(socket: Socket<Connection>): void {
    this.#socket = socket;
    this.#measureOpening();
    // The round trip was canceled in the meantime.
    if (this.#isClosed) socket.terminate();
    else if (!this.#owner.destination.isSecure) this.send();
  }

  /** Called after each handshake. A renegotiation must not send the request again. */
  secured(): void {
    if (this.#isSecured) return;
    this.#isSecured = true;
    this.#measureOpening();
    this.send();
  }

  #measureOpening(): void {
    const now = performance.now();
    this.#owner.measuredRoundTrip(now - this.#openedAt);
    this.#openedAt = now;
  }

  send(): void {
    const request = this.#trip?.request;
    if (!request || !this.#socket) return;
    this.#sentAt = performance.now();
    this.#writtenAt = this.#sentAt;
    const { start, rest } = request;
    const result = this.#socket.write(start);
    this.#wasDead = result < 0;
    const written = Math.max(0, result);
    // The text is encoded again only if the socket didn't accept all of it.
    const isAll = written >= Buffer.byteLength(start);
    this.#unsent = isAll ? [] : [Buffer.from(start).subarray(written)];
    if (rest) this.#unsent.push(rest);
    if (isAll) this.#flush();
  }

  /** Called when the socket accepts more bytes, also while there is nothing to send. */
  drained(): void {
    if (this.#unsent.length > 0) this.#flush();
  }

  #flush(): void {
    for (let first = this.#unsent[0]; first; first = this.#unsent[0]) {
      const written = Math.max(0, this.#socket?.write(first) ?? 0);
      if (written < first.length) {
        this.#unsent[0] = first.subarray(written);
        return;
      }
      this.#unsent.shift();
      this.#writtenAt = performance.now();
    }
    this.#trip?.requestSent();
  }

  received(bytes: Buffer): void {
    const isBetweenResponses = !this.#trip || this.#trip.request !== undefined;
    const data = isBetweenResponses ? withoutBlankLines(bytes) : bytes;
    if (data.length === 0) return;
    if (this.#trip?.request) this.#owner.measuredRoundTrip(performance.now() - this.#sentAt);
    if (this.#trip) this.#trip.push(data);
    // Some servers send a 408 before they close an idle connection.
    else if (requestTimeoutLine.test(data.toString('latin1', 0, 12))) this.close();
    else if (!this.#isClosed) this.receivedExcessBytes();
  }

  receivedExcessBytes(): void {
    this.close();
    this.#owner.receivedExcessBytes();
  }

  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  done(reusableMs: number): void {
    this.#trip = undefined;
    if (reusableMs === 0 || this.#unsent.length > 0) {
      this.close();
      return;
    }
    if (this.#idleSince < Number.POSITIVE_INFINITY) this.#owner.connectionReused();
    this.#socket?.unref();
    this.#idleSince = performance.now();
    this.#usableUntil = this.#idleSince + reusableMs;
    this.#owner.returnIdle(this);
  }

  close(): void {
    if (!this.#socket && !this.#isClosed) this.#owner.abandonOpening(this.#opening);
    this.#end();
    this.#socket?.terminate();
  }

  /** Called when the server closed the connection or it couldn't be opened. */
  closed(reason: unknown): void {
    if (this.#isClosed) return;
    const isUnread = this.#trip?.request !== undefined && this.#isUnread(reason);
    const trip = this.#end();
    if (this.#isEarly(trip)) this.#owner.closedEarly();
    if (!trip) return;
    if (isUnread) this.#owner.sendAgain(trip);
    else trip.closed(reason);
  }

  #end(): RoundTrip | undefined {
    const trip = this.#trip;
    this.#trip = undefined;
    this.#unsent = [];
    this.#isClosed = true;
    return trip;
  }

  /**
   * Returns whether the server closed the connection when it had been idle for only a moment, or
   * right after the next request was sent, without responding to it.
   */
  #isEarly(trip: RoundTrip | undefined): boolean {
    if (trip && (!trip.request || !this.#isJustSent)) return false;
    const idleMs = (trip ? this.#sentAt : performance.now()) - this.#idleSince;
    return idleMs >= 0 && idleMs < this.#owner.idleMsMin;
  }

  get #isJustSent(): boolean {
    return performance.now() - this.#sentAt <= justSentMs;
  }

  /**
   * Returns whether the server can't have read the whole request, so that it may be sent again.
   * Servers close idle connections, sometimes just as the next request is sent, which is then lost.
   * If the close arrives before a round trip has passed, it was sent before the request arrived.
   * Any later, it may be the server's response to the request.
   */
  #isUnread(reason: unknown): boolean {
    const idleMs = this.#sentAt - this.#idleSince;
    if (this.#wasDead && idleMs >= 0) return true;
    if (reason !== undefined && !lostCodes.has(failureCode(reason) ?? '')) return false;
    if (idleMs < this.#owner.idleMsMin) return false;
    const isPartial = this.#unsent.length > 0;
    return isPartial || performance.now() - this.#writtenAt < this.#owner.roundTripMs - lagMs;
  }
}

const requestTimeoutLine = /^HTTP\/1\.\d 408/;

const lostCodes: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * Returns the error if this process has no file descriptors left. The runtime reports a connection
 * that fails for this reason as refused by the server.
 */
function fileLimitError(): unknown {
  try {
    closeSync(openSync('/', 'r'));
    return undefined;
  } catch (error) {
    return ['EMFILE', 'ENFILE'].includes(failureCode(error) ?? '') ? error : undefined;
  }
}

const handlers: SocketHandler<Connection> = {
  binaryType: 'buffer',
  open(socket) {
    socket.data.opened(socket);
  },
  handshake(socket, isTrusted, reason) {
    if (isTrusted) socket.data.secured();
    else {
      socket.data.closed(reason ?? new ConnectionError('EPROTO', 'The handshake failed.'));
      socket.terminate();
    }
  },
  data(socket, bytes) {
    socket.data.received(bytes);
  },
  drain(socket) {
    socket.data.drained();
  },
  close(socket, reason) {
    socket.data.closed(reason);
  },
  error(socket, reason) {
    socket.data.closed(reason);
    socket.terminate();
  },
};
