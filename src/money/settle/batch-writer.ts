import { unbookedMax } from '../../core/bounds.ts';
import type { Booked, LedgerStore, SettlementEntry } from '../ledger.ts';
import { ClaimsInUse } from '../ledger.ts';

/** A commit starts at once when this many settlements wait. */
const fullBatch = 500;
/**
 * Settlements per commit if more are waiting, so that a backlog needs fewer locks and syncs. More
 * would block the event loop for longer than 20 ms while the batch is written.
 */
const batchMax = 2_000;
/** How long a commit waits for more rows. A commit of 1 row costs as much as one of 50. */
const batchDelayMs = 200;
const retryMsFirst = 100;
const retryMsMax = 2_000;
/** About 20 seconds, including the pauses, which is longer than the timeout of any statement. */
const flushTriesMax = 100;

interface BatchWriterDeps {
  readonly store: Pick<LedgerStore, 'commit'>;
  readonly processId: string;
  /** Called with the charges and request ids of each commit. */
  onCommit(booked: readonly Booked[], requestIds: readonly string[]): void;
  onFailure(waiting: number, reason: unknown): void;
}

/** Commits settlements to the ledger in batches, in the background. */
export class BatchWriter {
  readonly #deps: BatchWriterDeps;
  readonly #waiting: SettlementEntry[] = [];
  /** Request id → tenant id of settlements deferred because their claims were in use. */
  readonly #deferred = new Map<string, string>();
  #running: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #retryMs = retryMsFirst;
  /** True after a failure, when the last batch may have been committed. */
  #inDoubt = false;

  constructor(deps: BatchWriterDeps) {
    this.#deps = deps;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Returns how long the oldest settlement has been waiting. */
  lagMs(now: number): number {
    const oldest = this.#waiting[0];
    return oldest ? Math.max(0, now - oldest.endedAt) : 0;
  }

  get isFull(): boolean {
    return this.#waiting.length >= unbookedMax;
  }

  add(entry: SettlementEntry): void {
    this.#waiting.push(entry);
    if (this.#waiting.length === fullBatch) this.#runInBackground();
    else this.#scheduleRun(batchDelayMs);
  }

  /**
   * Resolves once everything added before is committed. If a tenant is given, doesn't wait for
   * deferred settlements of other tenants. Rejects if the store is unreachable.
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

  /** Runs without a caller. Failures are passed to `onFailure` and retried. */
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

  /** Commits all entries waiting now. Later ones wait for the next run unless they fill a batch. */
  async #commitAll(): Promise<void> {
    this.#deferred.clear();
    let due = this.#waiting.length;
    while (due > 0 || this.#waiting.length - this.#deferred.size >= fullBatch) {
      due -= await this.#commitNext();
    }
    if (this.#waiting.length > 0) this.#scheduleRun(batchDelayMs);
  }

  async #commitNext(): Promise<number> {
    const { onCommit, onFailure } = this.#deps;
    // The batch is among these entries. Don't scan the whole queue, which may have 100,000 entries.
    const scanLength = batchMax + this.#deferred.size;
    const entries = this.#waiting
      .slice(0, scanLength)
      .filter(({ requestId }) => !this.#deferred.has(requestId))
      .slice(0, batchMax);
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

  /**
   * Defers the settlements whose claims are in use, so that a long answer doesn't delay other
   * charges. Returns their number.
   */
  #deferSome(entries: readonly SettlementEntry[], { requests }: ClaimsInUse): number {
    for (const [requestId, tenantId] of requests) this.#deferred.set(requestId, tenantId);
    return entries.filter(({ requestId }) => requests.has(requestId)).length;
  }

  /**
   * Commits a batch. After a failure, tries again with `mayRepeat`, because a request ID that is
   * already committed, such as the ID of a repeated piece of a job, makes its whole batch fail.
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
