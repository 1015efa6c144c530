import {
  idempotencyLeaseMs,
  idempotencyPollMs,
  idempotencyTtlMs,
  idempotencyWriteMs,
  idempotentBytesPerTenantMax,
  unwrittenLengthMax,
} from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import type { Claim, NamedAnswer, Remembered } from '../core/claim.ts';
import { GatewayError, invalidRequest, unavailable } from '../core/errors.ts';
import { isLong, type Recording } from '../core/recording.ts';
import { unlessAborted, within } from '../core/within.ts';
import type { Claimed, ClaimStore } from './claim.ts';
import type { Duty } from './duty.ts';

/** A claim that this process is answering. `ended` brings the answer; undefined where none came. */
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
  /** Answers that have ended, but that the store has not taken yet. */
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

  /** The first answer, or the duty to make it. 400 409 429 503 */
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
        throw refusal('was used before with a different request');
      }
      const done = claimed.state === 'done' ? claimed.recording : await this.#wait(claim, client);
      if (done !== undefined) return { found: used(done, use) };
    }
  }

  chores(): readonly Chore[] {
    return [
      { everyMs: idempotencyLeaseMs / 3, run: () => this.#extend() },
      { everyMs: 1_000, run: () => this.#writeLateOrExtend(false) },
      { everyMs: 1_000, run: () => this.#writeLateOrExtend(true) },
      { everyMs: 60_000, run: () => this.#tidy() },
    ];
  }

  /** Before the store is closed: what it did not take yet would be forgotten. */
  async close(): Promise<void> {
    await Promise.all([false, true].map((long) => this.#writeLate(long, this.#writeMs)));
  }

  async #tidy(): Promise<void> {
    await this.#store.removeExpired(this.#now());
    this.#kept = new Map(await this.#store.keptBytes());
  }

  /** Before anything is sent. Repetitions of what is kept already are answered all the same. */
  async #requireRoom(claim: Claim): Promise<void> {
    if ((this.#kept.get(claim.tenantId) ?? 0) < idempotentBytesPerTenantMax) return;
    await this.#store.release(claim).catch(() => undefined);
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
    if (!here) return this.#store.claim(claim, this.#now(), idempotencyLeaseMs).catch(claimsAway);
    return { state: here.fingerprint === claim.fingerprint ? 'running' : 'other_request' };
  }

  /** What a running one brought; undefined when it is time to ask the store again. */
  async #wait(claim: Claim, client: AbortSignal): Promise<Recording | null | undefined> {
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
  #dutyFor(claim: Claim): Duty {
    const { promise: ended, resolve: end } = Promise.withResolvers<Recording | null | undefined>();
    const running: Running = { claim, ended };
    this.#running.set(nameOf(claim), running);
    let isOver = false;
    return {
      finish: async (recording, charge) => {
        const answer = this.#answer(claim, recording);
        const how = await (charge ? charge.keepWith(answer) : this.#write(answer, this.#writeMs));
        isOver = true;
        if (how === 'unwritten') this.#writeLater(running, recording);
        else this.#forget(running);
        end(how === 'taken_over' ? undefined : recording);
        if (how === 'taken_over') throw refusal('is being answered by another process now', true);
        this.#count(claim, recording);
      },
      release: async () => {
        if (isOver) return;
        isOver = true;
        this.#forget(running);
        end(undefined);
        // If the store cannot be told, the claim is free again when its lease ends. A row that has
        // its answer, which we never heard of, is paid for or belongs to a job: it stays.
        const released = this.#store.release(claim).catch(() => undefined);
        // The charge and the client's error come after this: neither may wait for long.
        await within(released, this.#writeMs);
      },
    };
  }

  #forget({ claim }: Running): void {
    this.#running.delete(nameOf(claim));
  }

  #answer(claim: Claim, recording: Recording | null): NamedAnswer {
    return { claim, recording, expiresAt: this.#now() + idempotencyTtlMs };
  }

  /** An answer that the store did not take, or not in time, may be written again. */
  async #write(answer: NamedAnswer, waitMs?: number): Promise<Remembered> {
    try {
      const finishing = this.#store.finish(answer);
      const isOurs = await (waitMs === undefined ? finishing : within(finishing, waitMs));
      if (isOurs === undefined) return 'unwritten';
      return isOurs ? 'written' : 'taken_over';
    } catch {
      return 'unwritten';
    }
  }

  /** Requests that wait here get it in any case; later ones only if there is room to keep it. */
  #writeLater(running: Running, recording: Recording | null): void {
    if (this.#hasRoomFor(recording)) {
      this.#unwritten.set(running, recording);
      return;
    }
    const { claim } = running;
    // Replaces the entry, which would keep the text in memory for as long as the store is away.
    const without: Running = { claim, ended: Promise.resolve(null) };
    this.#running.set(nameOf(claim), without);
    this.#unwritten.set(without, null);
  }

  #hasRoomFor(recording: Recording | null): boolean {
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
      if (isLong(recording) !== long) continue;
      const how = await this.#write(this.#answer(running.claim, recording), waitMs);
      this.#unwritten.delete(running);
      if (how === 'unwritten') {
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

function used<T>(recording: Recording | null, use: (recording: Recording) => T | undefined): T {
  if (!recording) {
    throw refusal('was answered before, and its answer was too long to be kept, or was lost');
  }
  const found = use(recording);
  if (found !== undefined) return found;
  throw refusal('was answered before, and its answer cannot be given in this form');
}

/** A key has no spaces, so no two claims share a name. */
function nameOf({ tenantId, key }: Claim): string {
  return `${tenantId} ${key}`;
}

/** Where a repetition helps, the error says so to SDKs, which repeat by themselves. */
function refusal(why: string, retryHelps = false): GatewayError {
  const message = `This Idempotency-Key ${why}.`;
  const more = { status: 409, param: 'Idempotency-Key', retryHelps } as const;
  return new GatewayError('invalid_request_error', message, more);
}

function claimsAway(cause: unknown): never {
  throw unavailable('An Idempotency-Key cannot be looked up right now; try again shortly.', cause);
}
