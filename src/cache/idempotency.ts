import {
  idempotencyLeaseMs,
  idempotencyPollMs,
  idempotencyTtlMs,
  idempotencyWriteMs,
  idempotentBytesPerTenantMax,
  unwrittenLengthMax,
} from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import type { Recording } from '../core/recording.ts';
import type { Claim, Claimed, ClaimStore } from './claim.ts';
import type { Duty } from './duty.ts';
import { unlessAborted } from './unless-aborted.ts';

/** A claim that this process answers, and what comes of it; undefined: nothing. */
interface Running {
  readonly claim: Claim;
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
  readonly #writeMs: number;
  readonly #running = new Map<string, Running>();
  /** Ended, but the store did not take it yet. */
  readonly #unwritten = new Map<Running, Recording | null>();
  /** By tenant, the bytes in the store when it was last counted, and what was added here since. */
  #kept = new Map<string, number>();

  constructor(
    store: ClaimStore,
    now: () => number = Date.now,
    writeMs: number = idempotencyWriteMs,
  ) {
    this.#store = store;
    this.#now = now;
    this.#writeMs = writeMs;
  }

  /** The first answer, or the duty to make it. 400 409 422 429 503 */
  async recall<T>(
    claim: Claim,
    client: AbortSignal,
    use: (recording: Recording) => T | undefined,
  ): Promise<{ found: T } | { duty: Duty }> {
    if (!keyPattern.test(claim.key)) {
      const message = 'Idempotency-Key must be 1 to 255 visible ASCII characters.';
      throw invalidRequest(message, 'Idempotency-Key');
    }
    for (;;) {
      const claimed = await this.#claim(claim);
      if (claimed.state === 'ours') {
        await this.#requireRoom(claim);
        return { duty: this.#dutyFor(claim) };
      }
      if (claimed.state === 'other_request') {
        throw refusal('was used before with a different request', 422);
      }
      const done = claimed.state === 'done' ? claimed.recording : await this.#wait(claim, client);
      if (done !== undefined) return { found: used(done, use) };
    }
  }

  chores(): readonly Chore[] {
    return [
      { everyMs: idempotencyLeaseMs / 3, run: () => this.#extend() },
      { everyMs: 1_000, run: () => this.#writeLate() },
      { everyMs: 60_000, run: () => this.#tidy() },
    ];
  }

  /** Before the store is closed: what it did not take yet would be forgotten. */
  close(): Promise<void> {
    return this.#writeLate();
  }

  async #tidy(): Promise<void> {
    await this.#store.removeExpired(this.#now());
    this.#kept = new Map(await this.#store.keptBytes());
  }

  /** Before anything is sent. Repetitions of what is kept already are answered all the same. */
  async #requireRoom(claim: Claim): Promise<void> {
    if ((this.#kept.get(claim.tenantId) ?? 0) < idempotentBytesPerTenantMax) return;
    await this.#store.release(claim, false).catch(() => undefined);
    const message =
      `Answers under Idempotency-Keys take ${idempotentBytesPerTenantMax} bytes here, as much as ` +
      'one account may have; wait until some are a day old, or send this one without a key.';
    const more = { param: 'Idempotency-Key', retryAfterSeconds: 60 };
    throw new GatewayError('rate_limit_exceeded', message, more);
  }

  #count({ tenantId }: Claim, recording: Recording | null): void {
    this.#kept.set(tenantId, (this.#kept.get(tenantId) ?? 0) + (recording?.text.length ?? 0));
  }

  /** A claim that is being answered here stays ours, even if a set clock has ended its lease. */
  async #claim(claim: Claim): Promise<Claimed> {
    const here = this.#running.get(nameOf(claim))?.claim;
    if (!here) return this.#store.claim(claim, this.#now(), idempotencyLeaseMs).catch(storeAway);
    return { state: here.fingerprint === claim.fingerprint ? 'running' : 'other_request' };
  }

  /** What a running one brought; undefined when it is time to ask the store again. */
  async #wait(claim: Claim, client: AbortSignal): Promise<Recording | null | undefined> {
    if (client.aborted) throw refusal('is still being answered', 409);
    const here = this.#running.get(nameOf(claim));
    if (here) return unlessAborted(here.ended, client);
    await Bun.sleep(idempotencyPollMs);
    return undefined;
  }

  /**
   * An answer is not lost, nor its bill, because a store is away. But what a process that stood
   * still for longer than its lease brings late is not given: a key is answered and charged once.
   */
  #dutyFor(claim: Claim): Duty {
    const { promise: ended, resolve: end } = Promise.withResolvers<Recording | null | undefined>();
    const running: Running = { claim, ended };
    this.#running.set(nameOf(claim), running);
    let isFinished = false;
    return {
      finish: async (recording) => {
        isFinished = true;
        this.#count(claim, recording);
        const isWritten = await this.#write(claim, recording);
        if (isWritten !== undefined) this.#forget(running);
        else this.#unwritten.set(running, this.#hasRoomFor(recording) ? recording : null);
        end(isWritten === false ? undefined : recording);
        if (isWritten === false) throw refusal('is being answered by another process now', 409);
      },
      release: async () => {
        this.#unwritten.delete(running);
        this.#forget(running);
        end(undefined);
        // Unless the store hears of it, the claim is free again when its lease ends. What it has
        // of a job whose maker could not hear the end of the change is the answer all the same.
        await this.#store.release(claim, isFinished).catch(() => undefined);
      },
    };
  }

  #forget(running: Running): void {
    const name = nameOf(running.claim);
    if (this.#running.get(name) === running) this.#running.delete(name);
  }

  /** Undefined when the store failed or took too long: the same may be written again. */
  #write(claim: Claim, recording: Recording | null): Promise<boolean | undefined> {
    const { promise, resolve } = Promise.withResolvers<boolean | undefined>();
    const timer = setTimeout(() => resolve(undefined), this.#writeMs);
    const written = this.#store.finish(claim, recording, this.#now() + idempotencyTtlMs);
    written.then(resolve, () => resolve(undefined));
    return promise.finally(() => clearTimeout(timer));
  }

  #hasRoomFor(recording: Recording | null): boolean {
    let length = recording?.text.length ?? 0;
    for (const waiting of this.#unwritten.values()) length += waiting?.text.length ?? 0;
    return length <= unwrittenLengthMax;
  }

  async #writeLate(): Promise<void> {
    for (const [running, recording] of this.#unwritten) {
      if ((await this.#write(running.claim, recording)) === undefined) return;
      this.#unwritten.delete(running);
      this.#forget(running);
    }
  }

  async #extend(): Promise<void> {
    if (this.#running.size === 0) return;
    const claims = [...this.#running.values()].map(({ claim }) => claim);
    await this.#store.extend(claims, this.#now() + idempotencyLeaseMs);
  }
}

function used<T>(recording: Recording | null, use: (recording: Recording) => T | undefined): T {
  if (!recording) {
    throw refusal('was answered before, and its answer was too long to be kept', 409);
  }
  const found = use(recording);
  if (found !== undefined) return found;
  throw refusal('was answered before, and its answer cannot be given in this form', 409);
}

/** A key has no spaces, so no two claims share a name. */
function nameOf({ tenantId, key }: Claim): string {
  return `${tenantId} ${key}`;
}

/** SDKs send a request again after a 409; where that cannot help it is a 422. */
function refusal(why: string, status: 409 | 422): GatewayError {
  const message = `This Idempotency-Key ${why}.`;
  return invalidRequest(message, 'Idempotency-Key', status);
}

function storeAway(cause: unknown): never {
  const message = 'An Idempotency-Key cannot be looked up right now; try again shortly.';
  throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 2, cause });
}
