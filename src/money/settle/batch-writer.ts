import { unbookedMax } from '../../core/bounds.ts';
import type { Booked, LedgerStore, SettlementEntry } from '../ledger.ts';
import { ClaimsInUse } from '../ledger.ts';

/** Rows of one commit: larger batches save nothing more, and hold the accounts longer. */
const settlementsPerBatch = 500;
/** A commit waits this long for company: by itself it costs as much as fifty rows in one. */
const batchDelayMs = 200;
const retryMsFirst = 100;
const retryMsMax = 2_000;
/** With a pause before each, twenty seconds: no statement of a store takes half as long. */
const flushTriesMax = 100;

interface BatchWriterDeps {
  readonly store: Pick<LedgerStore, 'commit'>;
  readonly processId: string;
  /** Called with what a commit took from each account, and with the requests that it booked. */
  onCommit(booked: readonly Booked[], requestIds: readonly string[]): void;
  onFailure(waiting: number, reason: unknown): void;
}

/** Moves settled requests into the books, in batches, off the path of any request. */
export class BatchWriter {
  readonly #deps: BatchWriterDeps;
  readonly #waiting: SettlementEntry[] = [];
  /** Requests that the last run put off, since their claims were in use; with their tenants. */
  readonly #deferred = new Map<string, string>();
  #running: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #retryMs = retryMsFirst;
  /** After a failure nobody knows whether the last batch was committed. */
  #inDoubt = false;

  constructor(deps: BatchWriterDeps) {
    this.#deps = deps;
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
    return this.#waiting.length >= unbookedMax;
  }

  add(entry: SettlementEntry): void {
    this.#waiting.push(entry);
    if (this.#waiting.length === settlementsPerBatch) this.#runInBackground();
    else this.#scheduleRun(batchDelayMs);
  }

  /**
   * Resolves when everything added before is in the books; rejects when they cannot be reached. For
   * one tenant, it does not wait for requests of others that were put off.
   */
  async flush(tenantId?: string): Promise<void> {
    const added = new Set(this.#waiting);
    const isPending = (entry: SettlementEntry) => {
      const deferredTenantId = this.#deferred.get(entry.requestId);
      return (
        added.has(entry) && (tenantId === undefined || (deferredTenantId ?? tenantId) === tenantId)
      );
    };
    for (let tries = 0; tries < flushTriesMax; tries += 1) {
      const pending = this.#waiting.filter(isPending);
      if (pending.length === 0) return;
      if (pending.every(({ requestId }) => this.#deferred.has(requestId)))
        await Bun.sleep(batchDelayMs);
      await this.#run();
    }
    throw new ClaimsInUse(this.#deferred);
  }

  #scheduleRun(ms: number): void {
    this.#timer ??= setTimeout(() => this.#runInBackground(), ms);
  }

  /** Nobody waits for this one; `onFailure` hears when it fails, and it is tried again. */
  #runInBackground(): void {
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
    this.#deferred.clear();
    let due = this.#waiting.length;
    while (due > 0 || this.#waiting.length - this.#deferred.size >= settlementsPerBatch) {
      due -= await this.#commitNext();
    }
    if (this.#waiting.length > 0) this.#scheduleRun(batchDelayMs);
  }

  async #commitNext(): Promise<number> {
    const { onCommit, onFailure } = this.#deps;
    // The batch is among these, whichever were put off: the queue may be a hundred thousand long.
    const scanLength = settlementsPerBatch + this.#deferred.size;
    const entries = this.#waiting
      .slice(0, scanLength)
      .filter(({ requestId }) => !this.#deferred.has(requestId))
      .slice(0, settlementsPerBatch);
    try {
      const booked = await this.#commit(entries);
      const committed = new Set(entries);
      this.#waiting.unshift(
        ...this.#waiting.splice(0, scanLength).filter((entry) => !committed.has(entry)),
      );
      this.#inDoubt = false;
      this.#retryMs = retryMsFirst;
      onCommit(
        booked,
        entries.map(({ requestId }) => requestId),
      );
      return entries.length;
    } catch (reason) {
      if (reason instanceof ClaimsInUse) return this.#deferSome(entries, reason);
      this.#inDoubt = true;
      onFailure(this.#waiting.length, reason);
      this.#scheduleRun(this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, retryMsMax);
      throw reason;
    }
  }

  /** The rest is booked without them: a long answer must not delay the charges of others. */
  #deferSome(entries: readonly SettlementEntry[], { requests }: ClaimsInUse): number {
    for (const [requestId, tenantId] of requests) this.#deferred.set(requestId, tenantId);
    return entries.filter(({ requestId }) => requests.has(requestId)).length;
  }

  /**
   * An id that the books have already (a piece of a job that was run again) fails its whole batch.
   * So a failure is one only when a second look, for such ids, fails too.
   */
  #commit(entries: readonly SettlementEntry[]): Promise<readonly Booked[]> {
    const { store, processId } = this.#deps;
    const batch = { processId, entries, mayDefer: true, now: Date.now() };
    if (this.#inDoubt) return store.commit({ ...batch, mayRepeat: true });
    return store.commit({ ...batch, mayRepeat: false }).catch((error: unknown) => {
      if (error instanceof ClaimsInUse) throw error;
      return store.commit({ ...batch, mayRepeat: true });
    });
  }
}
