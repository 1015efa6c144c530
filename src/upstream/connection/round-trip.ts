import { strict as assert } from 'node:assert';
import { answerHeadBytesMax } from '../../core/bounds.ts';
import {
  ConnectionError,
  type HttpResponse,
  protocolError,
  type ResponseBody,
  type ResponseHeaders,
} from './response.ts';
import { type ResponseHead, readHead, withoutBlankLines } from './response-parser.ts';

/** Headers as they are sent; `host` has to be among them. */
export function formatHeaders(headers: Readonly<Record<string, string>>): string {
  let headerText = '';
  for (const name of Object.keys(headers)) {
    const value = headers[name] ?? '';
    // Checked where headers come from: a line break in one would make two headers, or two requests.
    assert(!/[\0\r\n]/.test(name + value), 'A header has more than one line.');
    headerText += `${name}: ${value}\r\n`;
  }
  return headerText;
}

/** What stands before the body of a request. */
export function formatRequestHead(path: string, headerText: string, bodyBytes: number): string {
  // Names are encoded before they become part of a path: a space or a line break in it would make
  // another request.
  assert(!/[^!-~]/.test(path), 'A path has characters that no path has.');
  return `POST ${path} HTTP/1.1\r\n${headerText}content-length: ${bodyBytes}\r\n\r\n`;
}

/** A request as it goes over the connection. */
interface WrittenRequest {
  /** The head with the empty line behind it, and perhaps the beginning of the body or all of it. */
  readonly start: string;
  readonly rest: Uint8Array | undefined;
}

/** What a round trip needs of the connection that carries it. */
export interface Transport {
  /** Brings no more until `resume`, because nobody takes it. */
  pause(): void;
  resume(): void;
  /** The answer is over; the connection may be used again within so many milliseconds. */
  done(reusableMs: number): void;
  /** More has come than belongs to the answer. */
  overrun(): void;
  /** Closes the connection, whatever is under way. */
  close(): void;
}

/** How many bytes may have come unasked for, before the other side has to wait. */
const waitingBytesMax = 64 * 1024;

const noop = () => undefined;

/**
 * One request and its answer. The connection pushes what has come, the reader asks for more; the
 * connection is free again as soon as the last byte is here, however much has been read.
 */
export class RoundTrip implements HttpResponse, ResponseBody {
  /** Rejects when there will be no answer. */
  readonly response: Promise<HttpResponse>;
  /** Kept until an answer begins: the request may have to be sent again. */
  #request: WrittenRequest | undefined;
  #transport: Transport | undefined;
  #respond: (respond: HttpResponse) => void = noop;
  #reject: (reason: unknown) => void = noop;
  /** Bytes of a head that is not whole. */
  #opening: Buffer | undefined;
  /** Bytes of the notes (1xx) before the answer. */
  #informationalBytes = 0;
  #head: ResponseHead | undefined;
  /** Bytes of the body that nobody has taken yet. */
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #isPaused = false;
  #isComplete = false;
  #failure: unknown;
  #onBytes: ((bytes: Uint8Array | undefined) => void) | undefined;
  #onError: ((reason: unknown) => void) | undefined;
  /** Called at the end, for a reader that wants the whole body at once. */
  #onComplete: (() => void) | undefined;
  /** Called for each piece until then. */
  #onPiece: (() => void) | undefined;

  constructor(request: WrittenRequest) {
    this.#request = request;
    this.response = new Promise((resolve, reject) => {
      this.#respond = resolve;
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

  get #receivedHead(): ResponseHead {
    if (this.#head) return this.#head;
    throw new RangeError('Nothing was answered yet.');
  }

  /** Undefined once an answer has begun, or nobody will hear it. */
  get request(): WrittenRequest | undefined {
    return this.#request;
  }

  attach(transport: Transport): void {
    this.#transport = transport;
  }

  /** The connection has brought something. */
  push(bytes: Buffer): void {
    this.#request = undefined;
    try {
      const rest = this.#head ? bytes : this.#readHead(bytes);
      if (rest) this.#readBody(rest);
    } catch (error) {
      this.#transport?.close();
      this.fail(error);
    }
  }

  /** What follows the head; undefined while the head is not whole. */
  #readHead(bytes: Buffer): Buffer | undefined {
    let unread = this.#opening ? Buffer.concat([this.#opening, bytes]) : bytes;
    for (;;) {
      const head = readHead(unread);
      if (!head) {
        this.#opening = unread;
        return undefined;
      }
      unread = unread.subarray(head.bytes);
      // Before the answer there may be notes (1xx) that it is coming.
      if (head.status < 200) {
        this.#informationalBytes += head.bytes;
        if (this.#informationalBytes > answerHeadBytesMax)
          throw protocolError('notes without an answer');
        continue;
      }
      this.#opening = undefined;
      this.#head = head;
      this.#respond(this);
      return unread;
    }
  }

  #readBody(bytes: Buffer): void {
    const { framing, reusableMs } = this.#receivedHead;
    const piece = framing?.push(bytes);
    if (framing && !framing.isComplete) {
      if (piece) this.#enqueue(piece);
      if (framing.fault !== undefined) throw framing.fault;
      return;
    }
    const isOverrun = framing ? framing.isOverrun : withoutBlankLines(bytes).length > 0;
    // The end may have come after the connection was paused; its next trip must not find it so.
    this.#resume();
    const transport = this.#transport;
    this.#transport = undefined;
    if (isOverrun) transport?.overrun();
    else transport?.done(reusableMs);
    if (piece) this.#enqueue(piece);
    this.#end();
  }

  #enqueue(bytes: Uint8Array): void {
    if (this.#deliver(bytes)) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    this.#onPiece?.();
    if (this.#waitingBytes <= waitingBytesMax || this.#onComplete || this.#isPaused) return;
    this.#isPaused = true;
    this.#transport?.pause();
  }

  #end(): void {
    this.#isComplete = true;
    this.#deliver(undefined);
    this.#onComplete?.();
  }

  /** False where no reader has asked. */
  #deliver(bytes: Uint8Array | undefined): boolean {
    const onBytes = this.#onBytes;
    if (!onBytes) return false;
    this.#onBytes = undefined;
    this.#onError = undefined;
    onBytes(bytes);
    return true;
  }

  read(onBytes: (bytes: Uint8Array | undefined) => void, onError: (reason: unknown) => void): void {
    const bytes = this.#waiting.shift();
    if (bytes) {
      this.#waitingBytes -= bytes.length;
      if (this.#waiting.length === 0) this.#resume();
      onBytes(bytes);
    } else if (this.#isComplete) onBytes(undefined);
    else if (this.#failure !== undefined) onError(this.#failure);
    else {
      this.#onBytes = onBytes;
      this.#onError = onError;
    }
  }

  #resume(): void {
    if (!this.#isPaused) return;
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
    const [first, ...more] = this.#waiting;
    this.#waiting = [];
    if (!first) return '';
    return decoder.decode(more.length > 0 ? Buffer.concat([first, ...more]) : first);
  }

  /** The connection was closed: in good order, unless there is a reason. */
  closed(reason: unknown): void {
    if (this.#failure !== undefined) return;
    this.#transport = undefined;
    const isComplete = reason === undefined && this.#head?.framing?.mayClose;
    if (isComplete) this.#end();
    else this.fail(reason ?? connectionClosed());
  }

  /** No more will come, for this reason. */
  fail(reason: unknown): void {
    if (this.#isComplete || this.#failure !== undefined) return;
    this.#transport = undefined;
    this.#request = undefined;
    this.#failure = reason;
    this.#reject(reason);
    this.#onBytes = undefined;
    this.#onError?.(reason);
  }

  /** The reader does not want the rest. */
  cancel(): void {
    const transport = this.#transport;
    this.fail(new ConnectionError('ECONNABORTED', 'The call was ended.'));
    transport?.close();
  }
}

const decoder = new TextDecoder();

function connectionClosed(): ConnectionError {
  return new ConnectionError('ECONNRESET', 'The server closed the connection in the middle.');
}
