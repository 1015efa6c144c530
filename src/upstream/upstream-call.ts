import { attemptMsMax, clientStallMs } from '../core/bounds.ts';
import { Deadline, type DeadlineWatcher } from '../core/deadlines.ts';

/** A reader that may continue to read after the client has disconnected. */
export interface LateReader {
  /** How long to wait for the rest of the answer. 0 cancels the call. */
  readonly lingerMs: number;
}

/** A sent request, as its call needs to know it. */
interface SentRequest {
  cancel(): void;
  /** True if the server got the full request and hasn't responded with an error. */
  readonly isAccepted: boolean;
}

/** Shared by all listeners, to save an object per call. */
const once = { once: true };

/**
 * One call to an upstream with its timeouts. It is canceled when the client disconnects, when the
 * upstream is silent for too long, or when it takes too long in total. It records the reason.
 */
export class UpstreamCall extends Deadline {
  /** Created on first use, because most calls need no signal. */
  #controller: AbortController | undefined;
  #request: SentRequest | undefined;
  #isCanceled = false;
  readonly deadlines: DeadlineWatcher;
  readonly #client: AbortSignal;
  #endsAt: number;
  /** When the answer must have begun. */
  #openBy = Number.POSITIVE_INFINITY;
  readonly #stallMs: number;
  #lateReader: LateReader | undefined;
  #disconnectedAt: number | undefined;
  #isReleased = false;
  #timedOut = false;

  constructor(
    deadlines: DeadlineWatcher,
    clientSignal: AbortSignal,
    attemptMs = attemptMsMax,
    stallMs = clientStallMs,
  ) {
    super();
    this.deadlines = deadlines;
    this.#client = clientSignal;
    this.#endsAt = performance.now() + attemptMs;
    this.#stallMs = stallMs;
    if (clientSignal.aborted || deadlines.isOver) this.#isCanceled = true;
    // The listener is never removed: removing it would cost as much as adding it, and the signal
    // goes away with the request.
    else clientSignal.addEventListener('abort', this, once);
    deadlines.add(this);
  }

  /** Used by calls that can be canceled only with a signal. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isCanceled) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Cancels the request when this call is canceled, or immediately if it already is. */
  bind(request: SentRequest): void {
    this.#request = request;
    if (this.#isCanceled) request.cancel();
  }

  /** True if the client disconnected while the upstream was processing the full request. */
  get isAbandoned(): boolean {
    return this.clientDisconnected && !this.#timedOut && this.#request?.isAccepted === true;
  }

  get timedOut(): boolean {
    return this.#timedOut;
  }

  get clientDisconnected(): boolean {
    return this.#client.aborted;
  }

  /** True if the process is shutting down. */
  get isShuttingDown(): boolean {
    return this.deadlines.isOver;
  }

  /** After a disconnect, keeps the call open for this reader's linger time. */
  lingerFor(reader: LateReader): void {
    this.#lateReader = reader;
  }

  /** Called when the client disconnected, and again when the reader's linger time changes. */
  linger(): void {
    const lingerMs = this.#lateReader?.lingerMs ?? 0;
    if (lingerMs === 0) {
      this.#abort();
      return;
    }
    this.#disconnectedAt ??= performance.now();
    this.#endsAt = this.#disconnectedAt + lingerMs;
    this.at = Math.min(this.at, this.#endsAt);
  }

  /** Times out unless the answer begins by this time. */
  mustOpenBy(at: number): void {
    this.#openBy = at;
  }

  /** Called when the answer has begun. */
  opened(): void {
    this.#openBy = Number.POSITIVE_INFINITY;
    this.suspendTimeout();
  }

  /** Times out unless bytes arrive within this time. */
  expectDataWithin(ms: number, now = performance.now()): void {
    this.at = Math.min(now + ms, this.#endsAt, this.#openBy);
  }

  /** Uses the client's timeout while waiting for the client instead of the upstream. */
  suspendTimeout(): void {
    this.at = Math.min(performance.now() + this.#stallMs, this.#endsAt, this.#openBy);
  }

  /** Ends the connection in any state. Can be called again. */
  cancel(): void {
    this.deadlines.remove(this);
    this.#abort();
  }

  #abort(): void {
    this.#isCanceled = true;
    this.#request?.cancel();
    this.#controller?.abort();
  }

  /** Ends the timeouts of a completed call without closing its connection. */
  release(): void {
    this.deadlines.remove(this);
    this.#isReleased = true;
  }

  /** Called by the watcher when a timeout has passed. */
  fire(): void {
    this.#timedOut = true;
    this.cancel();
  }

  /** Called by the watcher when the process must exit. */
  override giveUp(): void {
    this.cancel();
  }

  /** Called by the client's signal when it disconnects. */
  handleEvent(): void {
    if (!this.#isReleased) this.linger();
  }
}
