import { answerHeadBytesMax } from '../../core/bounds.ts';
import type { AnswerBody, AnswerHeaders, HttpAnswer } from './answer.ts';
import { type AnswerHead, readHead } from './answer-head.ts';
import { BrokenAnswer, notHttp } from './broken-answer.ts';
import { behindBlank } from './framing.ts';

/** A request as it goes over the connection. */
interface WrittenRequest {
  /** The head with the empty line behind it, and perhaps the beginning of the body or all of it. */
  readonly start: string;
  readonly rest: Uint8Array | undefined;
}

/** What a round trip needs of the connection that carries it. */
export interface Carrier {
  /** Brings no more until `resume`, because nobody takes it. */
  pause(): void;
  resume(): void;
  /** The answer is over; the connection may be used again within so many milliseconds. */
  done(keptMs: number): void;
  /** More has come than belongs to the answer. */
  overrun(): void;
  /** Closes the connection, whatever is under way. */
  close(): void;
}

/** How many bytes may have come unasked for, before the other side has to wait. */
const waitingBytesMax = 64 * 1024;

const nobody = () => undefined;

/**
 * One request and its answer. The connection pushes what has come, the reader asks for more; the
 * connection is free again as soon as the last byte is here, however much has been read.
 */
export class RoundTrip implements HttpAnswer, AnswerBody {
  /** Rejects when there will be no answer. */
  readonly answered: Promise<HttpAnswer>;
  /** Kept until an answer begins: the request may have to be sent again. */
  #request: WrittenRequest | undefined;
  #carrier: Carrier | undefined;
  #answer: (answer: HttpAnswer) => void = nobody;
  #refuse: (reason: unknown) => void = nobody;
  /** Bytes of a head that is not whole. */
  #opening: Buffer | undefined;
  /** Bytes of the notes (1xx) before the answer. */
  #noteBytes = 0;
  #head: AnswerHead | undefined;
  /** Bytes of the body that nobody has taken yet. */
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #isPaused = false;
  #isWhole = false;
  #broken: unknown;
  #taken: ((bytes: Uint8Array | undefined) => void) | undefined;
  #breaks: ((reason: unknown) => void) | undefined;
  /** Called at the end, for a reader that wants the whole body at once. */
  #onWhole: (() => void) | undefined;
  /** Called for each piece until then. */
  #onPiece: (() => void) | undefined;

  constructor(request: WrittenRequest) {
    this.#request = request;
    this.answered = new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.#refuse = reject;
    });
  }

  get status(): number {
    return this.#told.status;
  }

  get ok(): boolean {
    const { status } = this.#told;
    return status >= 200 && status < 300;
  }

  get headers(): AnswerHeaders {
    return this.#told.headers;
  }

  get body(): AnswerBody | null {
    return this.#told.framing ? this : null;
  }

  get #told(): AnswerHead {
    if (this.#head) return this.#head;
    throw new RangeError('Nothing was answered yet.');
  }

  /** Undefined once an answer has begun, or nobody will hear it. */
  get request(): WrittenRequest | undefined {
    return this.#request;
  }

  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier;
  }

  /** The connection has brought something. */
  push(bytes: Buffer): void {
    this.#request = undefined;
    try {
      const rest = this.#head ? bytes : this.#readHead(bytes);
      if (rest) this.#readBody(rest);
    } catch (thrown) {
      this.#carrier?.close();
      this.fail(thrown);
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
        this.#noteBytes += head.bytes;
        if (this.#noteBytes > answerHeadBytesMax) throw notHttp('notes without an answer');
        continue;
      }
      this.#opening = undefined;
      this.#head = head;
      this.#answer(this);
      return unread;
    }
  }

  #readBody(bytes: Buffer): void {
    const { framing, keptMs } = this.#told;
    const piece = framing?.push(bytes);
    if (framing && !framing.isOver) {
      if (piece) this.#give(piece);
      if (framing.fault !== undefined) throw framing.fault;
      return;
    }
    const isOverrun = framing ? framing.isOverrun : behindBlank(bytes).length > 0;
    // The end may have come after the connection was paused; its next trip must not find it so.
    this.#resume();
    const carrier = this.#carrier;
    this.#carrier = undefined;
    if (isOverrun) carrier?.overrun();
    else carrier?.done(keptMs);
    if (piece) this.#give(piece);
    this.#end();
  }

  #give(bytes: Uint8Array): void {
    if (this.#tell(bytes)) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    this.#onPiece?.();
    if (this.#waitingBytes <= waitingBytesMax || this.#onWhole || this.#isPaused) return;
    this.#isPaused = true;
    this.#carrier?.pause();
  }

  #end(): void {
    this.#isWhole = true;
    this.#tell(undefined);
    this.#onWhole?.();
  }

  /** False where no reader has asked. */
  #tell(bytes: Uint8Array | undefined): boolean {
    const taken = this.#taken;
    if (!taken) return false;
    this.#taken = undefined;
    this.#breaks = undefined;
    taken(bytes);
    return true;
  }

  read(taken: (bytes: Uint8Array | undefined) => void, broken: (reason: unknown) => void): void {
    const bytes = this.#waiting.shift();
    if (bytes) {
      this.#waitingBytes -= bytes.length;
      if (this.#waiting.length === 0) this.#resume();
      taken(bytes);
    } else if (this.#isWhole) taken(undefined);
    else if (this.#broken !== undefined) broken(this.#broken);
    else {
      this.#taken = taken;
      this.#breaks = broken;
    }
  }

  #resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#carrier?.resume();
  }

  text(onPiece?: () => void): Promise<string> {
    if (this.#isWhole) return Promise.resolve(this.#takeAll());
    if (this.#broken !== undefined) return Promise.reject(this.#broken);
    return new Promise((resolve, reject) => {
      this.#onPiece = onPiece;
      this.#onWhole = () => resolve(this.#takeAll());
      this.#breaks = reject;
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
    if (this.#broken !== undefined) return;
    this.#carrier = undefined;
    const isWhole = reason === undefined && this.#head?.framing?.mayClose;
    if (isWhole) this.#end();
    else this.fail(reason ?? brokenOff());
  }

  /** No more will come, for this reason. */
  fail(reason: unknown): void {
    if (this.#isWhole || this.#broken !== undefined) return;
    this.#carrier = undefined;
    this.#request = undefined;
    this.#broken = reason;
    this.#refuse(reason);
    this.#taken = undefined;
    this.#breaks?.(reason);
  }

  /** The reader does not want the rest. */
  cancel(): void {
    const carrier = this.#carrier;
    this.fail(new BrokenAnswer('ECONNABORTED', 'The call was ended.'));
    carrier?.close();
  }
}

const decoder = new TextDecoder();

function brokenOff(): BrokenAnswer {
  return new BrokenAnswer('ECONNRESET', 'The server closed the connection in the middle.');
}
