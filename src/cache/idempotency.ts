import {
  idempotencyLeaseMs,
  idempotencyPollMs,
  idempotencyTtlMs,
  idempotencyWriteMs,
  idempotentBytesPerTenantMax,
  unwrittenLengthMax,
} from '../core/bounds.ts';
import { unlessAborted, withTimeout } from '../core/deadlines.ts';
import { GatewayError, invalidRequest, unavailable } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { InFlightEntry } from '../core/recording.ts';
import {
  type AnswerWriteResult,
  type IdempotencyClaim,
  type IdempotentAnswer,
  isLongRecording,
  type Recording,
} from '../core/recording.ts';

export type ClaimResult =
  /**
   * The key is new, or the request that used it never finished. If paid, a request was charged, but
   * its answer is lost, so this request answers it at no further charge.
   */
  | { readonly state: 'ours'; readonly isPaid?: true }
  | { readonly state: 'other_request' }
  /**
   * The key is in use, possibly by a different request that arrived at the same time. The next
   * lookup finds out whether it is.
   */
  | { readonly state: 'running' }
  /** Null if the answer was too long to store. */
  | { readonly state: 'done'; readonly recording: Recording | null };

/** Stores claims, always in the database, because they decide what is charged. */
export interface ClaimStore {
  claim(claim: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult>;
  /**
   * Extends claims that this process is still answering, so that no other process takes them over.
   */
  extend(claims: readonly IdempotencyClaim[], until: number): Promise<void>;
  /**
   * Stores an answer that was not written with its charge. Returns false if another one is stored.
   */
  finish(answer: IdempotentAnswer): Promise<boolean>;
  /** Deletes a claim, unless its answer is stored: that answer was paid for. */
  release(claim: IdempotencyClaim): Promise<void>;
  removeExpired(now: number): Promise<void>;
  /**
   * Returns the bytes of stored answers per tenant. An expired answer can still count for up to an
   * hour.
   */
  storedBytes(): Promise<ReadonlyMap<string, number>>;
}

/**
 * A claim that this process is answering. `ended` resolves to its answer, or to undefined if there
 * is none.
 */
interface RunningClaim {
  readonly claim: IdempotencyClaim;
  readonly ended: Promise<Recording | null | undefined>;
}

const keyPattern = /^[\x21-\x7e]{1,255}$/;

/**
 * Replays the first answer for an idempotency key to every repeat of its request, for a day.
 * Requests that arrive while the first is running wait for it.
 */
export class Idempotency {
  readonly #store: ClaimStore;
  readonly #now: () => number;
  readonly #writeTimeoutMs: number;
  readonly #running = new Map<string, RunningClaim>();
  /** Complete answers that the store hasn't accepted yet. */
  readonly #unwritten = new Map<RunningClaim, Recording | null>();
  /** Bytes per tenant: the store's last count plus what was added here since. */
  #storedBytes = new Map<string, number>();

  constructor(
    store: ClaimStore,
    now: () => number = Date.now,
    writeTimeoutMs: number = idempotencyWriteMs,
  ) {
    this.#store = store;
    this.#now = now;
    this.#writeTimeoutMs = writeTimeoutMs;
  }

  /**
   * Returns the first answer, or an in-flight entry if this request has to produce the answer.
   * Throws 400, 409, 429, 503.
   */
  async lookUp<T>(
    claim: IdempotencyClaim,
    clientSignal: AbortSignal,
    toReplay: (recording: Recording) => T | undefined,
  ): Promise<{ found: T } | { inFlight: InFlightEntry }> {
    if (!keyPattern.test(claim.key)) {
      const message = 'Idempotency-Key must be 1 to 255 visible ASCII characters.';
      throw invalidRequest(message, 'Idempotency-Key');
    }
    for (;;) {
      const claimed = await this.#claim(claim);
      if (claimed.state === 'ours') {
        await this.#requireQuota(claim);
        return { inFlight: this.#inFlightFor(claim, claimed.isPaid ?? false) };
      }
      if (claimed.state === 'other_request') {
        throw conflict('was used before with a different request');
      }
      const done =
        claimed.state === 'done' ? claimed.recording : await this.#wait(claim, clientSignal);
      if (done !== undefined) return { found: replayOrReject(done, toReplay) };
    }
  }

  periodicTasks(): readonly PeriodicTask[] {
    return [
      { everyMs: idempotencyLeaseMs / 3, run: () => this.#extend() },
      { everyMs: 1_000, run: () => this.#writeLateOrExtend(false) },
      { everyMs: 1_000, run: () => this.#writeLateOrExtend(true) },
      { everyMs: 60_000, run: () => this.#removeExpired() },
    ];
  }

  /** Writes the remaining answers before the store is closed. */
  async close(): Promise<void> {
    await Promise.all([false, true].map((long) => this.#writeLate(long, this.#writeTimeoutMs)));
  }

  async #removeExpired(): Promise<void> {
    await this.#store.removeExpired(this.#now());
    this.#storedBytes = new Map(await this.#store.storedBytes());
  }

  /**
   * Throws 429 for a new key if the tenant's stored answers are over the limit. Repeated requests
   * with stored answers are still served.
   */
  async #requireQuota(claim: IdempotencyClaim): Promise<void> {
    if ((this.#storedBytes.get(claim.tenantId) ?? 0) < idempotentBytesPerTenantMax) return;
    await this.#store.release(claim).catch(() => undefined);
    const message =
      `This account's stored answers to Idempotency-Keys exceed ${idempotentBytesPerTenantMax} ` +
      'bytes. They expire after 24 hours. Wait, or send this request without an Idempotency-Key.';
    const details = { param: 'Idempotency-Key', retryAfterSeconds: 60 };
    throw new GatewayError('rate_limit_exceeded', message, details);
  }

  #addStoredBytes({ tenantId }: IdempotencyClaim, recording: Recording | null): void {
    this.#storedBytes.set(
      tenantId,
      (this.#storedBytes.get(tenantId) ?? 0) + (recording?.text.length ?? 0),
    );
  }

  /**
   * Claims a key. This process keeps a claim that it is still answering, even if a clock change has
   * ended the claim's lease.
   */
  async #claim(claim: IdempotencyClaim): Promise<ClaimResult> {
    const local = this.#running.get(nameOf(claim))?.claim;
    if (!local)
      return this.#store.claim(claim, this.#now(), idempotencyLeaseMs).catch(claimsUnavailable);
    return { state: local.fingerprint === claim.fingerprint ? 'running' : 'other_request' };
  }

  /**
   * Waits for a running request. Returns its answer, or undefined if the store must be queried
   * again.
   */
  async #wait(
    claim: IdempotencyClaim,
    clientSignal: AbortSignal,
  ): Promise<Recording | null | undefined> {
    if (clientSignal.aborted) throw conflict('is still being answered');
    const local = this.#running.get(nameOf(claim));
    if (local?.claim.fingerprint === claim.fingerprint)
      return unlessAborted(local.ended, clientSignal);
    await Bun.sleep(idempotencyPollMs);
    return undefined;
  }

  /**
   * Creates the entry for a claim. An answer and its charge survive an unreachable store. An answer
   * is discarded if another request has taken over its claim, because a key is answered and charged
   * only once. Waiting requests get the answer only after the charge is written, so that a crash
   * can't lose the charge.
   */
  #inFlightFor(claim: IdempotencyClaim, isPaid: boolean): InFlightEntry {
    const { promise: ended, resolve: end } = Promise.withResolvers<Recording | null | undefined>();
    const running: RunningClaim = { claim, ended };
    this.#running.set(nameOf(claim), running);
    let isFinished = false;
    return {
      isPaid,
      finish: async (recording, charge) => {
        const answer = this.#answer(claim, recording);
        const outcome = await (charge
          ? charge.saveWithAnswer(answer)
          : this.#write(answer, this.#writeTimeoutMs));
        isFinished = true;
        if (outcome === 'unwritten') this.#writeLater(running, recording);
        else this.#forget(running);
        end(outcome === 'taken_over' ? undefined : recording);
        if (outcome === 'taken_over')
          throw conflict('is being answered by another process now', true);
        this.#addStoredBytes(claim, recording);
      },
      release: async () => {
        if (isFinished) return;
        isFinished = true;
        this.#forget(running);
        end(undefined);
        // If the store is unreachable, the claim becomes free when its lease ends. A row that
        // already has an answer stays, because it is paid for or belongs to a job.
        const released = this.#store.release(claim).catch(() => undefined);
        // The charge and the client's error follow, so don't wait for long.
        await withTimeout(released, this.#writeTimeoutMs);
      },
    };
  }

  #forget({ claim }: RunningClaim): void {
    this.#running.delete(nameOf(claim));
  }

  #answer(claim: IdempotencyClaim, recording: Recording | null): IdempotentAnswer {
    return { claim, recording, expiresAt: this.#now() + idempotencyTtlMs };
  }

  /** Writes an answer. One that failed or timed out can be written again. */
  async #write(answer: IdempotentAnswer, waitMs?: number): Promise<AnswerWriteResult> {
    try {
      const finishing = this.#store.finish(answer);
      const isOurs = await (waitMs === undefined ? finishing : withTimeout(finishing, waitMs));
      if (isOurs === undefined) return 'unwritten';
      return isOurs ? 'written' : 'taken_over';
    } catch {
      return 'unwritten';
    }
  }

  /**
   * Keeps an answer to write it later. If it doesn't fit in memory, it is lost: the store lets a
   * later request answer again, at no charge if this one is charged.
   */
  #writeLater(running: RunningClaim, recording: Recording | null): void {
    if (this.#fitsInMemory(recording)) this.#unwritten.set(running, recording);
    else this.#forget(running);
  }

  #fitsInMemory(recording: Recording | null): boolean {
    let length = recording?.text.length ?? 0;
    for (const waiting of this.#unwritten.values()) length += waiting?.text.length ?? 0;
    return length <= unwrittenLengthMax;
  }

  /**
   * Writes pending answers. If some are left, extends all claims before the next attempt, because
   * an attempt locks their rows.
   */
  async #writeLateOrExtend(long: boolean): Promise<void> {
    // No timeout here: the store has its own, and a second attempt would wait for the first.
    if (!(await this.#writeLate(long))) await this.#extend().catch(() => undefined);
  }

  /**
   * Writes the pending long or short answers, so that short ones don't wait for long ones. Returns
   * false if some are left.
   */
  async #writeLate(long: boolean, waitMs?: number): Promise<boolean> {
    for (const [running, recording] of this.#unwritten) {
      if (isLongRecording(recording) !== long) continue;
      const outcome = await this.#write(this.#answer(running.claim, recording), waitMs);
      this.#unwritten.delete(running);
      if (outcome === 'unwritten') {
        // Move it to the end, because it may be the only answer that the store rejects.
        this.#unwritten.set(running, recording);
        return false;
      }
      this.#forget(running);
    }
    return true;
  }

  async #extend(): Promise<void> {
    if (this.#running.size === 0) return;
    const claims = [...this.#running.values()].map(({ claim }) => claim);
    await this.#store.extend(claims, this.#now() + idempotencyLeaseMs);
  }
}

function replayOrReject<T>(
  recording: Recording | null,
  toReplay: (recording: Recording) => T | undefined,
): T {
  if (!recording) {
    throw conflict('was answered before, but the answer was too long to store');
  }
  const found = toReplay(recording);
  if (found !== undefined) return found;
  throw conflict("was answered before, but the answer isn't available in this format");
}

/** Keys contain no spaces, so names are unique. */
function nameOf({ tenantId, key }: IdempotencyClaim): string {
  return `${tenantId} ${key}`;
}

/** Creates a 409. SDKs repeat the request only if `retryHelps` is set. */
function conflict(reason: string, retryHelps = false): GatewayError {
  const message = `This Idempotency-Key ${reason}.`;
  const details = { status: 409, param: 'Idempotency-Key', retryHelps } as const;
  return new GatewayError('invalid_request_error', message, details);
}

function claimsUnavailable(cause: unknown): never {
  throw unavailable("Idempotency-Keys can't be looked up right now. Try again shortly.", cause);
}
