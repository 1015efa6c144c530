import { attemptMsMax, clientStallMs } from '../core/bounds.ts';
import { Waiting, type Watch } from './watch.ts';

/** How long things may take that no provider's own timeouts bound. */
export interface LineLimits {
  readonly attemptMs: number;
  readonly stallMs: number;
}

export const usualLimits: LineLimits = { attemptMs: attemptMsMax, stallMs: clientStallMs };

/**
 * One connection to an upstream and our patience with it. Hangs up by itself when the client
 * leaves, the upstream stays silent too long or the whole takes too long, and remembers which of
 * the two sides it was.
 */
export class Line {
  readonly #controller = new AbortController();
  readonly #watch: Watch;
  readonly #client: AbortSignal;
  readonly #patience = new Waiting(() => this.#giveUp());
  readonly #onLeave = () => this.#controller.abort();
  readonly #endsAt: number;
  readonly #stallMs: number;
  #timedOut = false;

  constructor(watch: Watch, client: AbortSignal, limits: LineLimits = usualLimits) {
    this.#watch = watch;
    this.#client = client;
    this.#endsAt = performance.now() + limits.attemptMs;
    this.#stallMs = limits.stallMs;
    if (client.aborted) this.#controller.abort();
    else client.addEventListener('abort', this.#onLeave, { once: true });
    watch.add(this.#patience);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get timedOut(): boolean {
    return this.#timedOut;
  }

  get clientLeft(): boolean {
    return this.#client.aborted;
  }

  /** Something must be heard within this time. */
  expectWithin(ms: number, now = performance.now()): void {
    this.#patience.at = Math.min(now + ms, this.#endsAt);
  }

  /** Nothing is expected: we are waiting for the client, not for the upstream. */
  relax(): void {
    this.#patience.at = Math.min(performance.now() + this.#stallMs, this.#endsAt);
  }

  /** Ends the connection, whatever state it is in. Safe to call again. */
  hangUp(): void {
    this.#watch.remove(this.#patience);
    this.#client.removeEventListener('abort', this.#onLeave);
    this.#controller.abort();
  }

  /** The upstream closed in good order; the connection may be used again by somebody else. */
  release(): void {
    this.#watch.remove(this.#patience);
    this.#client.removeEventListener('abort', this.#onLeave);
  }

  #giveUp(): void {
    this.#timedOut = true;
    this.hangUp();
  }
}
