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
import {
  type AnswerWriteResult,
  type IdempotencyClaim,
  type IdempotentAnswer,
  isLongRecording,
  type Recording,
} from '../core/recording.ts';
import type { InFlightEntry } from './in-flight-entry.ts';

export type ClaimResult =
  /** The key is new, or the request that used it never finished: ours to answer. */
  | { readonly state: 'ours' }
  | { readonly state: 'other_request' }
  /** The key is in use: where two came at once, maybe by another request. The next look tells. */
  | { readonly state: 'running' }
  /** Null when the answer was too long to be kept, or was lost with its process. */
  | { readonly state: 'done'; readonly recording: Recording | null };

/** Where claims are kept: in the store, because they decide what is charged. */
export interface ClaimStore {
  claim(claim: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult>;
  /** Prolongs claims that this process is still answering, so that no other takes them over. */
  extend(claims: readonly IdempotencyClaim[], until: number): Promise<void>;
  /** Keeps an answer that was not written with its charge. False: another one is kept already. */
  finish(answer: IdempotentAnswer): Promise<boolean>;
  /** Frees the claim, unless its answer is kept: that answer was paid for. */
  release(claim: IdempotencyClaim): Promise<void>;
  removeExpired(now: number): Promise<void>;
  /** The bytes that each tenant's kept answers take; an expired one may count for an hour more. */
  storedBytes(): Promise<ReadonlyMap<string, number>>;
}

/** A claim that this process is answering. `ended` brings the answer; undefined where none came. */
interface RunningClaim {
  readonly claim: IdempotencyClaim;
  readonly ended: Promise<Recording | null | undefined>;
}

const keyPattern = /^[\x21-\x7e]{1,255}$/;

/**
 * The first result of a request that names itself, given again to its repetitions for a day. A
 * repetition that comes while the first is still running waits for it.
 */
export class Idempotency {
  readonly #store: ClaimStore;
  readonly #now: () => number;
  readonly #writeTimeoutMs: number;
  readonly #running = new Map<string, RunningClaim>();
  /** Answers that have ended, but that the store has not taken yet. */
  readonly #unwritten = new Map<RunningClaim, Recording | null>();
  /** By tenant, the bytes in the store when it was last counted, and what was added here since. */
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

  /** The first answer, or the duty to make it. 400 409 429 503 */
  async lookUp<T>(
    claim: IdempotencyClaim,
    client: AbortSignal,
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
        return { inFlight: this.#inFlightFor(claim) };
      }
      if (claimed.state === 'other_request') {
        throw refusal('was used before with a different request');
      }
      const done = claimed.state === 'done' ? claimed.recording : await this.#wait(claim, client);
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

  /** Before the store is closed: what it did not take yet would be forgotten. */
  async close(): Promise<void> {
    await Promise.all([false, true].map((long) => this.#writeLate(long, this.#writeTimeoutMs)));
  }

  async #removeExpired(): Promise<void> {
    await this.#store.removeExpired(this.#now());
    this.#storedBytes = new Map(await this.#store.storedBytes());
  }

  /** Before anything is sent. Repetitions of what is kept already are answered all the same. */
  async #requireQuota(claim: IdempotencyClaim): Promise<void> {
    if ((this.#storedBytes.get(claim.tenantId) ?? 0) < idempotentBytesPerTenantMax) return;
    await this.#store.release(claim).catch(() => undefined);
    const message =
      `Answers under Idempotency-Keys take ${idempotentBytesPerTenantMax} bytes here, as much as ` +
      'one account may have; wait until some are a day old, or send this one without a key.';
    const details = { param: 'Idempotency-Key', retryAfterSeconds: 60 };
    throw new GatewayError('rate_limit_exceeded', message, details);
  }

  #addStoredBytes({ tenantId }: IdempotencyClaim, recording: Recording | null): void {
    this.#storedBytes.set(
      tenantId,
      (this.#storedBytes.get(tenantId) ?? 0) + (recording?.text.length ?? 0),
    );
  }

  /** A claim that is being answered here stays ours, even if a set clock has ended its lease. */
  async #claim(claim: IdempotencyClaim): Promise<ClaimResult> {
    const here = this.#running.get(nameOf(claim))?.claim;
    if (!here)
      return this.#store.claim(claim, this.#now(), idempotencyLeaseMs).catch(claimsUnavailable);
    return { state: here.fingerprint === claim.fingerprint ? 'running' : 'other_request' };
  }

  /** What a running one brought; undefined when it is time to ask the store again. */
  async #wait(claim: IdempotencyClaim, client: AbortSignal): Promise<Recording | null | undefined> {
    if (client.aborted) throw refusal('is still being answered');
    const here = this.#running.get(nameOf(claim));
    if (here?.claim.fingerprint === claim.fingerprint) return unlessAborted(here.ended, client);
    await Bun.sleep(idempotencyPollMs);
    return undefined;
  }

  /**
   * An answer is not lost, nor its bill, because a store is away. But what a process that stood
   * still for longer than its lease brings late is not given: a key is answered and charged once.
   * Those who wait here are told after the charge, which a process that is killed then still makes.
   */
  #inFlightFor(claim: IdempotencyClaim): InFlightEntry {
    const { promise: ended, resolve: end } = Promise.withResolvers<Recording | null | undefined>();
    const running: RunningClaim = { claim, ended };
    this.#running.set(nameOf(claim), running);
    let isFinished = false;
    return {
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
          throw refusal('is being answered by another process now', true);
        this.#addStoredBytes(claim, recording);
      },
      release: async () => {
        if (isFinished) return;
        isFinished = true;
        this.#forget(running);
        end(undefined);
        // If the store cannot be told, the claim is free again when its lease ends. A row that has
        // its answer, which we never heard of, is paid for or belongs to a job: it stays.
        const released = this.#store.release(claim).catch(() => undefined);
        // The charge and the client's error come after this: neither may wait for long.
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

  /** An answer that the store did not take, or not in time, may be written again. */
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

  /** Requests that wait here get it in any case; later ones only if there is room to keep it. */
  #writeLater(running: RunningClaim, recording: Recording | null): void {
    if (this.#fitsInMemory(recording)) {
      this.#unwritten.set(running, recording);
      return;
    }
    const { claim } = running;
    // Replaces the entry, which would keep the text in memory for as long as the store is away.
    const placeholder: RunningClaim = { claim, ended: Promise.resolve(null) };
    this.#running.set(nameOf(claim), placeholder);
    this.#unwritten.set(placeholder, null);
  }

  #fitsInMemory(recording: Recording | null): boolean {
    let length = recording?.text.length ?? 0;
    for (const waiting of this.#unwritten.values()) length += waiting?.text.length ?? 0;
    return length <= unwrittenLengthMax;
  }

  /** The row of an answer that is being written cannot be extended: that is done between tries. */
  async #writeLateOrExtend(long: boolean): Promise<void> {
    // Without a limit: the store ends it in time, and a second try would wait behind the first.
    if (!(await this.#writeLate(long))) await this.#extend().catch(() => undefined);
  }

  /** Writes the long ones or the short ones, which do not wait for those. False: some are left. */
  async #writeLate(long: boolean, waitMs?: number): Promise<boolean> {
    for (const [running, recording] of this.#unwritten) {
      if (isLongRecording(recording) !== long) continue;
      const outcome = await this.#write(this.#answer(running.claim, recording), waitMs);
      this.#unwritten.delete(running);
      if (outcome === 'unwritten') {
        // To the end of the line: it may be the only one that the store does not take.
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
    throw refusal('was answered before, and its answer was too long to be kept, or was lost');
  }
  const found = toReplay(recording);
  if (found !== undefined) return found;
  throw refusal('was answered before, and its answer cannot be given in this form');
}

/** A key has no spaces, so no two claims share a name. */
function nameOf({ tenantId, key }: IdempotencyClaim): string {
  return `${tenantId} ${key}`;
}

/** Where a repetition helps, the error says so to SDKs, which repeat by themselves. */
function refusal(why: string, retryHelps = false): GatewayError {
  const message = `This Idempotency-Key ${why}.`;
  const details = { status: 409, param: 'Idempotency-Key', retryHelps } as const;
  return new GatewayError('invalid_request_error', message, details);
}

function claimsUnavailable(cause: unknown): never {
  throw unavailable('An Idempotency-Key cannot be looked up right now; try again shortly.', cause);
}
