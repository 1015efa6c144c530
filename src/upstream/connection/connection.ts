import { closeSync, openSync } from 'node:fs';
import { isIP } from 'node:net';
import type { Socket, SocketHandler } from 'bun';
import { failureCode } from '../../core/errors.ts';
import { ConnectionError } from './response.ts';
import { withoutBlankLines } from './response-parser.ts';
import type { RoundTrip, Transport } from './round-trip.ts';

/** A closed connection shows it within a round trip: if it breaks later, the request was read. */
const unreadMsMax = 1_000;

/** Where a connection leads. */
export interface Destination {
  readonly hostname: string;
  readonly port: number;
  readonly isSecure: boolean;
  /** Authorities that are trusted instead of the usual ones. */
  readonly trustedCertificates?: string | undefined;
}

/** The owner of connections, who keeps them between two trips. */
export interface ConnectionOwner {
  readonly destination: Destination;
  /** No server closes a connection used within this time: if one breaks, the request was read. */
  readonly idleMsMin: number;
  returnIdle(connection: Connection): void;
  /** A connection was used for more than one trip. */
  connectionReused(): void;
  /** The server closed a connection right after an answer, without having said that it would. */
  closedEarly(): void;
  /** The server said something that belongs to no answer. */
  overrun(): void;
  /** Sends the request of this trip over a new connection. */
  sendOnNewConnection(trip: RoundTrip): void;
  /** Nobody waits any more for this connection, which is not open yet. */
  abandonOpening(opening: Promise<unknown>): void;
}

/** One connection to a server, for one trip after the other. */
export class Connection implements Transport {
  readonly #owner: ConnectionOwner;
  readonly #opening: Promise<unknown>;
  #socket: Socket<Connection> | undefined;
  #trip: RoundTrip | undefined;
  #unsent: Uint8Array[] = [];
  #isSecured = false;
  #isClosed = false;
  #sentAt = 0;
  /** The connection was dead before the request was written: nobody can have read that. */
  #wasDead = false;
  /** Until when the connection may be used again, and since when it is idle. */
  #usableUntil = 0;
  #idleSince = Number.POSITIVE_INFINITY;

  /** Opens a connection, and sends the request of this trip as soon as it is open. */
  constructor(owner: ConnectionOwner, trip: RoundTrip) {
    this.#owner = owner;
    this.#trip = trip;
    trip.attach(this);
    const { hostname, port, isSecure, trustedCertificates } = owner.destination;
    const tls = isSecure && {
      // An environment variable must not be able to switch these checks off.
      rejectUnauthorized: true,
      // An IP address is not sent as a server name, but the certificate is checked against it.
      serverName: isIP(hostname) > 0 ? '' : hostname,
      // Each protocol name has its length in front.
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

  startTrip(trip: RoundTrip): void {
    this.#trip = trip;
    trip.attach(this);
    this.#socket?.ref();
    this.send();
  }

  opened(socket: Socket<Connection>): void {
    this.#socket = socket;
    // The trip was given up meanwhile.
    if (this.#isClosed) socket.terminate();
    else if (!this.#owner.destination.isSecure) this.send();
  }

  /** A server may ask for another handshake later; nothing is sent again for that. */
  secured(): void {
    if (this.#isSecured) return;
    this.#isSecured = true;
    this.send();
  }

  send(): void {
    const request = this.#trip?.request;
    if (!request || !this.#socket) return;
    this.#sentAt = performance.now();
    const { start, rest } = request;
    const result = this.#socket.write(start);
    this.#wasDead = result < 0;
    const written = Math.max(0, result);
    // Turned into bytes only where the connection does not take all of it at once.
    const isAll = written >= Buffer.byteLength(start);
    this.#unsent = isAll ? [] : [Buffer.from(start).subarray(written)];
    if (!rest) return;
    this.#unsent.push(rest);
    if (isAll) this.flush();
  }

  flush(): void {
    for (let first = this.#unsent[0]; first; first = this.#unsent[0]) {
      const written = Math.max(0, this.#socket?.write(first) ?? 0);
      if (written < first.length) {
        this.#unsent[0] = first.subarray(written);
        return;
      }
      this.#unsent.shift();
    }
  }

  received(bytes: Buffer): void {
    const isBetweenResponses = !this.#trip || this.#trip.request !== undefined;
    const data = isBetweenResponses ? withoutBlankLines(bytes) : bytes;
    if (data.length === 0) return;
    if (this.#trip) this.#trip.push(data);
    // Some servers answer 408 before they close a connection that was idle.
    else if (requestTimeoutLine.test(data.toString('latin1', 0, 12))) this.close();
    else if (!this.#isClosed) this.overrun();
  }

  overrun(): void {
    this.close();
    this.#owner.overrun();
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

  /** The other side has closed the connection, or it never opened. */
  closed(reason: unknown): void {
    if (this.#isClosed) return;
    const trip = this.#end();
    if (this.#isEarly(trip)) this.#owner.closedEarly();
    if (!trip) return;
    if (trip.request && this.#mayBeUnread(reason)) this.#owner.sendOnNewConnection(trip);
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
   * Whether the server closed this connection after it was idle for only a moment, or right after
   * it was sent its next request, without an answer.
   */
  #isEarly(trip: RoundTrip | undefined): boolean {
    if (trip && (!trip.request || !this.#isJustSent)) return false;
    const idleMs = (trip ? this.#sentAt : performance.now()) - this.#idleSince;
    return idleMs >= 0 && idleMs < this.#owner.idleMsMin;
  }

  get #isJustSent(): boolean {
    return performance.now() - this.#sentAt <= unreadMsMax;
  }

  /**
   * Servers close connections that were idle for some seconds, and may do so at the very moment
   * when the next request goes out. That request is lost. It may be sent again, but only where it
   * can hardly have been read: its connection had been idle, and broke right after it was sent.
   */
  #mayBeUnread(reason: unknown): boolean {
    const idleMs = this.#sentAt - this.#idleSince;
    if (this.#wasDead && idleMs >= 0) return true;
    const wasIdle = idleMs >= this.#owner.idleMsMin;
    if (!wasIdle || !this.#isJustSent) return false;
    return reason === undefined || lostCodes.has(failureCode(reason) ?? '');
  }
}

const requestTimeoutLine = /^HTTP\/1\.\d 408/;

const lostCodes: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * The reason why this process can open nothing, not even a file. The runtime reports a connection
 * that finds no place as refused by the other side, which never heard of it.
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
    socket.data.flush();
  },
  close(socket, reason) {
    socket.data.closed(reason);
  },
  error(socket, reason) {
    socket.data.closed(reason);
    socket.terminate();
  },
};
