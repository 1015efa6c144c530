import { idempotencyLeaseMs, idempotencyWriteMs } from '../../core/bounds.ts';
import { withTimeout } from '../../core/deadlines.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../../core/recording.ts';
import type { Booked, BookedAnswers, LedgerStore, SettlementEntry } from '../ledger.ts';

/** Answers per transaction. More would save little and lock accounts longer. */
const answersPerBatch = 50;
/**
 * The most characters in the answers of one transaction, unless the first answer alone has more.
 */
const batchCharactersMax = 1_000_000;
/**
 * If a write takes longer than this, the process was suspended. Claims are extended 3 times per
 * lease, so a process that was suspended for less than 2/3 of a lease still has its claims.
 */
const stallMsMax = idempotencyLeaseMs / 2;
/** Time for the store to detect closed connections and open new ones. */
const reconnectMs = 50;

interface AnswerBatchWriterDeps {
  readonly store: Pick<LedgerStore, 'commitWithAnswers'>;
  readonly processId: string;
  /** Called with the charges and request ids of each commit. */
  onCommit(booked: readonly Booked[], requestIds: readonly string[]): void;
}

interface PendingAnswer {
  readonly answer: IdempotentAnswer;
  readonly entry: SettlementEntry;
  readonly resolve: (outcome: AnswerWriteResult) => void;
}

/**
 * Stores answers with idempotency keys, each in one transaction with its charge. Answers that end
 * during a transaction share the next one. Otherwise, the requests of a tenant would wait for the
 * lock on its account.
 */
export class AnswerBatchWriter {
  readonly #deps: AnswerBatchWriterDeps;
  readonly #writeTimeoutMs: number;
  readonly #stallMs: number;
  #waiting: PendingAnswer[] = [];
  #isRunning = false;
  /** True while a transaction that took too long hasn't ended. New answers don't wait for it. */
  #isOverdue = false;

  constructor(
    deps: AnswerBatchWriterDeps,
    writeTimeoutMs: number = idempotencyWriteMs,
    stallMs: number = stallMsMax,
  ) {
    this.#deps = deps;
    this.#writeTimeoutMs = writeTimeoutMs;
    this.#stallMs = stallMs;
  }

  /** Returns `unwritten` if the store failed or took too long. The charge is never taken twice. */
  book(answer: IdempotentAnswer, entry: SettlementEntry): Promise<AnswerWriteResult> {
    if (this.#isOverdue) return Promise.resolve('unwritten');
    return new Promise((resolve) => {
      this.#waiting.push({ answer, entry, resolve });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) await this.#commit(this.#nextBatch());
    this.#isRunning = false;
  }

  #nextBatch(): readonly PendingAnswer[] {
    let length = 0;
    const end = this.#waiting.findIndex(({ answer }, index) => {
      length += answer.recording?.text.length ?? 0;
      return index === answersPerBatch || (index > 0 && length > batchCharactersMax);
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  async #commit(batch: readonly PendingAnswer[]): Promise<void> {
    const startedAt = performance.now();
    let transaction = this.#startTransaction(batch, false);
    let done = await withTimeout(transaction, this.#writeTimeoutMs);
    const hasStalled = performance.now() - startedAt > this.#stallMs;
    // Try again if the process was suspended, because then it hasn't really waited for the store.
    // Also try again after a failure, because all connections may have been closed in the meantime.
    if (done === 'failed' || (!done && hasStalled)) {
      if (done) await Bun.sleep(reconnectMs);
      transaction = this.#startTransaction(batch, true);
      // Clients have already waited for the first try, unless the process was suspended.
      const leftMs = Math.max(reconnectMs, this.#writeTimeoutMs - (performance.now() - startedAt));
      done = await withTimeout(transaction, hasStalled ? this.#writeTimeoutMs : leftMs);
    }
    if (done && done !== 'failed') {
      this.#deps.onCommit(done.booked, [...done.requestIds]);
      for (const { entry, resolve } of batch) {
        resolve(done.requestIds.has(entry.requestId) ? 'written' : 'taken_over');
      }
      return;
    }
    for (const { resolve } of [...batch, ...this.#waiting.splice(0)]) resolve('unwritten');
    this.#isOverdue = true;
    await transaction;
    this.#isOverdue = false;
  }

  /** `mayRepeat` is true if the settlements may have been committed before. */
  #startTransaction(
    batch: readonly PendingAnswer[],
    mayRepeat: boolean,
  ): Promise<BookedAnswers | 'failed'> {
    const { store, processId } = this.#deps;
    const entries = batch.map(({ entry }) => entry);
    const answers = batch.map(({ answer }) => answer);
    const terms = { processId, mayRepeat, now: Date.now() };
    return store.commitWithAnswers({ ...terms, entries }, answers).catch(() => 'failed' as const);
  }
}
