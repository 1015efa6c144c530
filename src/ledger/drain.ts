import { undrainedMax } from '../core/bounds.ts';
import { ClaimsInUse } from './claims-in-use.ts';
import type { Booked, LedgerStore } from './ledger-store.ts';
import type { Slip } from './slip.ts';

/** Rows of one commit: larger batches save nothing more, and hold the accounts longer. */
const batchMax = 500;
/** A commit waits this long for company: by itself it costs as much as fifty rows in one. */
const pauseMs = 200;
const retryMsFirst = 100;
const retryMsMax = 2_000;
/** With a pause before each, twenty seconds: no statement of a store takes half as long. */
const looksMax = 100;

interface DrainParts {
  readonly store: Pick<LedgerStore, 'commit'>;
  readonly processId: string;
  /** Called with what a commit took from each account, and with the requests that it booked. */
  onCommit(booked: readonly Booked[], requestIds: readonly string[]): void;
  onFailure(waiting: number, reason: unknown): void;
}

/** Moves settled requests into the books, in batches, off the path of any request. */
export class Drain {
  readonly #parts: DrainParts;
  readonly #waiting: Slip[] = [];
  /** Requests that the last run put off, since their claims were in use; with their tenants. */
  readonly #putOff = new Map<string, string>();
  #running: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #retryMs = retryMsFirst;
  /** After a failure nobody knows whether the last batch was committed. */
  #inDoubt = false;

  constructor(parts: DrainParts) {
    this.#parts = parts;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** How long the oldest settlement has waited to be booked. */
  lagMs(now: number): number {
    const oldest = this.#waiting[0];
    return oldest ? Math.max(0, now - oldest.endedAt) : 0;
  }

  get isFull(): boolean {
    return this.#waiting.length >= undrainedMax;
  }

  add(slip: Slip): void {
    this.#waiting.push(slip);
    if (this.#waiting.length === batchMax) this.#runAlone();
    else this.#runWithin(pauseMs);
  }

  /**
   * Resolves when everything added before is in the books; rejects when they cannot be reached. For
   * one tenant, it does not wait for requests of others that were put off.
   */
  async flush(tenantId?: string): Promise<void> {
    const added = new Set(this.#waiting);
    const isMissing = (slip: Slip) => {
      const whose = this.#putOff.get(slip.requestId);
      return added.has(slip) && (tenantId === undefined || (whose ?? tenantId) === tenantId);
    };
    for (let looks = 0; looks < looksMax; looks += 1) {
      const missing = this.#waiting.filter(isMissing);
      if (missing.length === 0) return;
      if (missing.every(({ requestId }) => this.#putOff.has(requestId))) await Bun.sleep(pauseMs);
      await this.#run();
    }
    throw new ClaimsInUse(this.#putOff);
  }

  #runWithin(ms: number): void {
    this.#timer ??= setTimeout(() => this.#runAlone(), ms);
  }

  /** Nobody waits for this one; `onFailure` hears when it fails, and it is tried again. */
  #runAlone(): void {
    this.#run().catch(() => undefined);
  }

  #run(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#running ??= this.#commitAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Books all that wait now. Later ones wait for the next run, unless they fill a batch. */
  async #commitAll(): Promise<void> {
    this.#putOff.clear();
    let due = this.#waiting.length;
    while (due > 0 || this.#waiting.length - this.#putOff.size >= batchMax) {
      due -= await this.#commitNext();
    }
    if (this.#waiting.length > 0) this.#runWithin(pauseMs);
  }

  async #commitNext(): Promise<number> {
    const { onCommit, onFailure } = this.#parts;
    // The batch is among these, whichever were put off: the queue may be a hundred thousand long.
    const reach = batchMax + this.#putOff.size;
    const slips = this.#waiting
      .slice(0, reach)
      .filter(({ requestId }) => !this.#putOff.has(requestId))
      .slice(0, batchMax);
    try {
      const booked = await this.#commit(slips);
      const done = new Set(slips);
      this.#waiting.unshift(...this.#waiting.splice(0, reach).filter((slip) => !done.has(slip)));
      this.#inDoubt = false;
      this.#retryMs = retryMsFirst;
      onCommit(
        booked,
        slips.map(({ requestId }) => requestId),
      );
      return slips.length;
    } catch (reason) {
      if (reason instanceof ClaimsInUse) return this.#putOffSome(slips, reason);
      this.#inDoubt = true;
      onFailure(this.#waiting.length, reason);
      this.#runWithin(this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, retryMsMax);
      throw reason;
    }
  }

  /** The rest is booked without them: a long answer must not delay the charges of others. */
  #putOffSome(slips: readonly Slip[], { requests }: ClaimsInUse): number {
    for (const [requestId, tenantId] of requests) this.#putOff.set(requestId, tenantId);
    return slips.filter(({ requestId }) => requests.has(requestId)).length;
  }

  /**
   * An id that the books have already (a piece of a job that was run again) fails its whole batch.
   * So a failure is one only when a second look, for such ids, fails too.
   */
  #commit(slips: readonly Slip[]): Promise<readonly Booked[]> {
    const { store, processId } = this.#parts;
    const batch = { processId, slips, mayPutOff: true, now: Date.now() };
    if (this.#inDoubt) return store.commit({ ...batch, mayRepeat: true });
    return store.commit({ ...batch, mayRepeat: false }).catch((thrown: unknown) => {
      if (thrown instanceof ClaimsInUse) throw thrown;
      return store.commit({ ...batch, mayRepeat: true });
    });
  }
}
