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
    if (here) return unlessAborted(here.ended, client);
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
        // Unless the store hears of it, the claim is free again when its lease ends. What it has
        // of an answer whose end we could not hear of is paid for, or a job: that stays.
        const released = this.#store.release(claim).catch(() => undefined);
        // What is owed is charged after this, and a client is told why: neither waits for long.
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

  /** What the store did not take, or not in time, may be written again. */
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

  /** Those who wait get it in any case; without room for it, those who come later do not. */
  #writeLater(running: Running, recording: Recording | null): void {
    if (this.#hasRoomFor(recording)) {
      this.#unwritten.set(running, recording);
      return;
    }
    const { claim } = running;
    // In its place, since the first would hold on to the text for as long as the store is away.
    const without: Running = { claim, ended: Promise.resolve(null) };
    this.#running.set(nameOf(claim), without);
    this.#unwritten.set(without, null);
  }

  #hasRoomFor(recording: Recording | null): boolean {
    let length = recording?.text.length ?? 0;
    for (const waiting of this.#unwritten.values()) length += waiting?.text.length ?? 0;
    return length <= unwrittenLengthMax;
  }

  /** While one is being written nobody can extend it: so that is done between two tries. */
  async #writeLateOrExtend(long: boolean): Promise<void> {
    // To its end, which the store sees to: a second try would stand in line behind the first.
    if (!(await this.#writeLate(long))) await this.#extend().catch(() => undefined);
  }

  /** Long ones, or the others: those do not wait behind them. False: the store took not all. */
  async #writeLate(long: boolean, waitMs?: number): Promise<boolean> {
    for (const [running, recording] of this.#unwritten) {
      if (isLong(recording) !== long) continue;
      const how = await this.#write(this.#answer(running.claim, recording), waitMs);
      this.#unwritten.delete(running);
      if (how === 'unwritten') {
        // Behind the others: it may be this one alone that the store does not take.
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

/** Where repeating it helps, SDKs do that by themselves. */
function refusal(why: string, retryHelps = false): GatewayError {
  const message = `This Idempotency-Key ${why}.`;
  const more = { status: 409, param: 'Idempotency-Key', retryHelps } as const;
  return new GatewayError('invalid_request_error', message, more);
}

function claimsAway(cause: unknown): never {
  throw unavailable('An Idempotency-Key cannot be looked up right now; try again shortly.', cause);
}
