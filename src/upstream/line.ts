import { attemptMsMax, clientStallMs } from '../core/bounds.ts';
import { Waiting, type Watch } from '../core/watch.ts';

/** A reader that goes on when the client has left. */
export interface LateReader {
  /** How long to wait for what is still to come; 0 when nothing is worth waiting for. */
  readonly lingerMs: number;
}

/** Shared by all listeners, which saves an object for each call. */
const once = { once: true };

/**
 * One call to an upstream and our patience with it. Hangs up by itself when the client
 * leaves, the upstream stays silent too long or the whole takes too long, and remembers which of
 * the two sides it was.
 */
export class Line extends Waiting {
  /** Made when a signal is asked for: most calls need none. */
  #controller: AbortController | undefined;
  #call: { cancel(): void } | undefined;
  #isHungUp = false;
  readonly watch: Watch;
  readonly #client: AbortSignal;
  #endsAt: number;
  readonly #stallMs: number;
  #lateReader: LateReader | undefined;
  #leftAt: number | undefined;
  #isReleased = false;
  #timedOut = false;

  constructor(
    watch: Watch,
    client: AbortSignal,
    attemptMs = attemptMsMax,
    stallMs = clientStallMs,
  ) {
    super();
    this.watch = watch;
    this.#client = client;
    this.#endsAt = performance.now() + attemptMs;
    this.#stallMs = stallMs;
    if (client.aborted || watch.isOver) this.#isHungUp = true;
    // The listener is never removed: that costs as much, and the signal ends with its request.
    else client.addEventListener('abort', this, once);
    watch.add(this);
  }

  /** For calls that can only be cancelled by a signal. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isHungUp) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Cancels this call when the line hangs up; at once where it has done so already. */
  bind(call: { cancel(): void }): void {
    this.#call = call;
    if (this.#isHungUp) call.cancel();
  }

  get timedOut(): boolean {
    return this.#timedOut;
  }

  get clientLeft(): boolean {
    return this.#client.aborted;
  }

  /** Whether the process is shutting down, so that nobody can wait for the rest. */
  get isShuttingDown(): boolean {
    return this.watch.isOver;
  }

  /** From here on the line outlives its client for as long as this reader wants. */
  outliveClientFor(reader: LateReader): void {
    this.#lateReader = reader;
  }

  /** The client has left. Called again when the reader waits for something else. */
  linger(): void {
    const lingerMs = this.#lateReader?.lingerMs ?? 0;
    if (lingerMs === 0) {
      this.#abort();
      return;
    }
    this.#leftAt ??= performance.now();
    this.#endsAt = this.#leftAt + lingerMs;
    this.at = Math.min(this.at, this.#endsAt);
  }

  /** Something must be heard within this time. */
  expectWithin(ms: number, now = performance.now()): void {
    this.at = Math.min(now + ms, this.#endsAt);
  }

  /** Nothing is expected: we are waiting for the client, not for the upstream. */
  relax(): void {
    this.at = Math.min(performance.now() + this.#stallMs, this.#endsAt);
  }

  /** Ends the connection, whatever state it is in. Safe to call again. */
  hangUp(): void {
    this.watch.remove(this);
    this.#abort();
  }

  #abort(): void {
    this.#isHungUp = true;
    this.#call?.cancel();
    this.#controller?.abort();
  }

  /** The call is over: nothing more is to come, and nothing has to be ended. */
  release(): void {
    this.watch.remove(this);
    this.#isReleased = true;
  }

  /** Called by the watch: the patience has ended. */
  fire(): void {
    this.#timedOut = true;
    this.hangUp();
  }

  /** Called by the watch: the process has to go. */
  override giveUp(): void {
    this.hangUp();
  }

  /** Called by the client's signal: it has left. */
  handleEvent(): void {
    if (!this.#isReleased) this.linger();
  }
}
