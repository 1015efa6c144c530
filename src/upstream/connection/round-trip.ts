import { strict as assert } from 'node:assert';
import { answerHeadBytesMax } from '../../core/bounds.ts';
import { turns } from '../../core/turns.ts';
import { lineBytesPerTurn, Unsized, withoutBlankLines } from './framing.ts';
import {
  ConnectionError,
  type HttpResponse,
  protocolError,
  type ResponseBody,
  type ResponseHeaders,
} from './response.ts';
import { type ResponseHead, readHead } from './response-parser.ts';

/** Formats headers as HTTP/1.1 lines. They must include `host`. */
export function formatHeaders(headers: Readonly<Record<string, string>>): string {
  let headerText = '';
  for (const name of Object.keys(headers)) {
    const value = headers[name] ?? '';
    // Callers have checked this. A line break would inject a header or a second request.
    assert(!/[\0\r\n]/.test(name + value), 'A header contains a line break or NUL.');
    headerText += `${name}: ${value}\r\n`;
  }
  return headerText;
}

/** Formats the request line and headers, up to and including the empty line. */
export function formatRequestHead(path: string, headerText: string, bodyBytes: number): string {
  // Callers have encoded it. A space or line break would inject a second request.
  assert(!/[^!-~]/.test(path), 'A path contains an invalid character.');
  return `POST ${path} HTTP/1.1\r\n${headerText}content-length: ${bodyBytes}\r\n\r\n`;
}

/** A request as it is sent over the connection. */
interface WrittenRequest {
  /**
   * The head with its empty line, optionally followed by the beginning of the body or all of it.
   */
  readonly start: string;
  readonly rest: Uint8Array | undefined;
}

/** The part of a connection that a round trip uses. */
export interface Transport {
  /** Stops reading from the socket until `resume`. */
  pause(): void;
  resume(): void;
  /** Called when the response is complete. The connection may be reused for `reusableMs`. */
  done(reusableMs: number): void;
  /** Called when bytes arrived after the end of the response. */
  receivedExcessBytes(): void;
  /** Closes the connection in any state. */
  close(): void;
}

/** How many bytes may wait in the buffer or at the reader before the socket is paused. */
const bufferedBytesMax = 64 * 1024;

const noop = () => undefined;

/**
 * One request and its response. The connection pushes bytes as they arrive, and the reader pulls
 * them. As soon as the last byte has arrived, the connection is free, even if bytes are unread.
 */
export class RoundTrip implements HttpResponse, ResponseBody {
  readonly provider: string;
  /** Resolves when the head has arrived. Rejects if there will be no response. */
  readonly response: Promise<HttpResponse>;
  /** Kept until a response begins, because the request may have to be sent again. */
  #request: WrittenRequest | undefined;
  #transport: Transport | undefined;
  #isSent = false;
  #resolve: (response: HttpResponse) => void = noop;
  #reject: (reason: unknown) => void = noop;
  /** The bytes of an incomplete head. */
  #partialHead: Buffer | undefined;
  /** The size of the informational responses (1xx) so far. */
  #informationalBytes = 0;
  #head: ResponseHead | undefined;
  /** Bytes of the body that are parsed in a later turn. */
  #unparsed: Uint8Array | undefined;
  /** Body bytes that haven't been read yet. */
  #buffered: Uint8Array[] = [];
  #bufferedBytes = 0;
  #isPaused = false;
  #isComplete = false;
  #failure: unknown;
  #onBytes: ((bytes: Uint8Array | undefined) => void) | undefined;
  #onError: ((reason: unknown) => void) | undefined;
  /** Called at the end of the body while `text` waits for it. */
  #onComplete: (() => void) | undefined;
  /** Called for each piece of the body while `text` waits for its end. */
  #onPiece: (() => void) | undefined;

  constructor(request: WrittenRequest, provider = 'unknown') {
    this.#request = request;
    this.provider = provider;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get status(): number {
    return this.#receivedHead.status;
  }

  get ok(): boolean {
    const { status } = this.#receivedHead;
    return status >= 200 && status < 300;
  }

  get headers(): ResponseHeaders {
    return this.#receivedHead.headers;
  }

  get body(): ResponseBody | null {
    return this.#receivedHead.framing ? this : null;
  }

  get endsWithConnection(): boolean {
    return this.#receivedHead.framing instanceof Unsized;
  }

  get #receivedHead(): ResponseHead {
    if (this.#head) return this.#head;
    throw new RangeError('The response has no head yet.');
  }

  /** Undefined once a response has begun or the round trip was canceled. */
  get request(): WrittenRequest | undefined {
    return this.#request;
  }

  /**
   * True if the server got the full request and hasn't responded with an error. Remains true after
   * the round trip is canceled.
   */
  get isAccepted(): boolean {
    return this.#isSent && (this.#head === undefined || this.ok);
  }

  attach(transport: Transport): void {
    this.#transport = transport;
    this.#isSent = false;
  }

  /** Called when the connection has written all of the request. */
  requestSent(): void {
    this.#isSent = true;
  }

  /** Called by the connection with the bytes that have arrived. */
  push(bytes: Buffer): void {
    this.#request = undefined;
    if (this.#unparsed) this.#unparsed = Buffer.concat([this.#unparsed, bytes]);
    else this.#parse(bytes);
  }

  #parse(bytes: Uint8Array): void {
    try {
      const rest = this.#head ? bytes : this.#readHead(bytes as Buffer);
      if (rest) this.#readBody(rest);
    } catch (error) {
      this.#transport?.close();
      this.fail(error);
    }
  }

  /** Parses the bytes that were left for this turn. */
  readonly #parseMore = () => {
    const unparsed = this.#unparsed;
    this.#unparsed = undefined;
    if (!unparsed || this.#failure !== undefined) return;
    this.#parse(unparsed);
    const isRead = this.#onBytes !== undefined || this.#onComplete !== undefined;
    if (isRead || this.#bufferedBytes === 0) this.#resume();
  };

  /** Returns the bytes after the head, or undefined while the head is incomplete. */
  #readHead(bytes: Buffer): Buffer | undefined {
    let unread = this.#partialHead ? Buffer.concat([this.#partialHead, bytes]) : bytes;
    for (;;) {
      const head = readHead(unread);
      if (!head) {
        this.#partialHead = unread;
        return undefined;
      }
      unread = unread.subarray(head.bytes);
      // Informational responses (1xx) may precede the response.
      if (head.status < 200) {
        this.#informationalBytes += head.bytes;
        if (this.#informationalBytes > answerHeadBytesMax)
          throw protocolError('too many informational responses');
        continue;
      }
      this.#partialHead = undefined;
      this.#head = head;
      this.#resolve(this);
      return unread;
    }
  }

  #readBody(bytes: Uint8Array): void {
    const { framing, reusableMs } = this.#receivedHead;
    const chunk = framing?.push(bytes);
    if (framing && !framing.isComplete) {
      if (chunk) this.#enqueue(chunk);
      if (framing.error !== undefined) throw framing.error;
      if (framing.unparsed) this.#parseLater(framing.unparsed);
      return;
    }
    const hasExcessBytes = framing ? framing.hasExcessBytes : withoutBlankLines(bytes).length > 0;
    // Resume a paused connection, so that its next round trip can read.
    this.#resume();
    const transport = this.#transport;
    this.#transport = undefined;
    if (hasExcessBytes) transport?.receivedExcessBytes();
    else transport?.done(reusableMs);
    if (chunk) this.#enqueue(chunk);
    this.#end();
  }

  #parseLater(unparsed: Uint8Array): void {
    this.#unparsed = unparsed;
    this.#pause();
    turns.wait(lineBytesPerTurn, this.#parseMore);
  }

  #enqueue(bytes: Uint8Array): void {
    let unread = bytes.length;
    if (!this.#deliver(bytes)) {
      this.#buffered.push(bytes);
      this.#bufferedBytes += bytes.length;
      this.#onPiece?.();
      unread = this.#bufferedBytes;
    }
    if (unread > bufferedBytesMax && !this.#onComplete && !this.#onBytes) this.#pause();
  }

  #pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#transport?.pause();
  }

  #end(): void {
    this.#isComplete = true;
    this.#deliver(undefined);
    this.#onComplete?.();
  }

  /** Returns false if no read is pending. */
  #deliver(bytes: Uint8Array | undefined): boolean {
    const onBytes = this.#onBytes;
    if (!onBytes) return false;
    this.#onBytes = undefined;
    this.#onError = undefined;
    onBytes(bytes);
    return true;
  }

  read(onBytes: (bytes: Uint8Array | undefined) => void, onError: (reason: unknown) => void): void {
    const bytes = this.#buffered.shift();
    if (bytes) {
      this.#bufferedBytes -= bytes.length;
      const isShort = bytes.length <= bufferedBytesMax;
      if (this.#buffered.length === 0 && isShort) this.#resume();
      onBytes(bytes);
    } else if (this.#isComplete) onBytes(undefined);
    else if (this.#failure !== undefined) onError(this.#failure);
    else {
      this.#onBytes = onBytes;
      this.#onError = onError;
      this.#resume();
    }
  }

  #resume(): void {
    if (!this.#isPaused || this.#unparsed) return;
    this.#isPaused = false;
    this.#transport?.resume();
  }

  text(onPiece?: () => void): Promise<string> {
    if (this.#isComplete) return Promise.resolve(this.#takeAll());
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#onPiece = onPiece;
      this.#onComplete = () => resolve(this.#takeAll());
      this.#onError = reject;
      this.#resume();
    });
  }

  #takeAll(): string {
    const [first, ...others] = this.#buffered;
    this.#buffered = [];
    if (!first) return '';
    return decoder.decode(others.length > 0 ? Buffer.concat([first, ...others]) : first);
  }

  /** Called when the connection closed: cleanly if `reason` is undefined. */
  closed(reason: unknown): void {
    if (this.#failure !== undefined) return;
    this.#transport = undefined;
    while (this.#unparsed) this.#parseMore();
    const isComplete = reason === undefined && this.#head?.framing?.mayClose;
    if (isComplete) this.#end();
    else this.fail(reason ?? connectionClosed());
  }

  /** Fails the response and pending reads. Does nothing after the end of the response. */
  fail(reason: unknown): void {
    if (this.#isComplete || this.#failure !== undefined) return;
    this.#transport = undefined;
    this.#request = undefined;
    this.#failure = reason;
    this.#reject(reason);
    this.#onBytes = undefined;
    this.#onError?.(reason);
  }

  /** Ends the round trip without reading the rest of the response. */
  cancel(): void {
    const transport = this.#transport;
    this.fail(new ConnectionError('ECONNABORTED', 'The call was canceled.'));
    transport?.close();
  }
}

const decoder = new TextDecoder();

function connectionClosed(): ConnectionError {
  return new ConnectionError(
    'ECONNRESET',
    'The server closed the connection before the end of its response.',
  );
}
