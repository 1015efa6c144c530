import { idempotencyLeaseMs, idempotencyWriteMs } from '../../core/bounds.ts';
import { withTimeout } from '../../core/deadlines.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../../core/recording.ts';
import type { Booked, BookedAnswers, LedgerStore, SettlementEntry } from '../ledger.ts';

/** Answers in one change: more would save little, and keep their accounts locked for longer. */
const answersPerBatch = 50;
/** Characters of all answers in one change, unless the first alone has more. */
const batchCharactersMax = 1_000_000;
/**
 * Claims are extended three times in a lease, so a process that stands still for two thirds of one
 * may lose them to others. Below that, they are still ours.
 */
const stallMsMax = idempotencyLeaseMs / 2;
/** Until the store has noticed which of its connections were cut, and uses new ones. */
const reconnectMs = 50;

interface AnswerBatchWriterDeps {
  readonly store: Pick<LedgerStore, 'commitWithAnswers'>;
  readonly processId: string;
  /** Called with what a commit took from each account, and with the requests that it booked. */
  onCommit(booked: readonly Booked[], requestIds: readonly string[]): void;
}

interface PendingAnswer {
  readonly answer: IdempotentAnswer;
  readonly entry: SettlementEntry;
  readonly resolve: (outcome: AnswerWriteResult) => void;
}

/**
 * Moves answers under idempotency keys into the store, each in one change with its charge. Those
 * that end while a change is under way share the next one: each by itself would keep its account
 * locked for several trips, and the requests of a tenant would stand in line at that lock.
 */
export class AnswerBatchWriter {
  readonly #deps: AnswerBatchWriterDeps;
  readonly #writeTimeoutMs: number;
  readonly #stallMs: number;
  #waiting: PendingAnswer[] = [];
  #isRunning = false;
  /** The last change took too long, and has not ended yet: nobody else waits for the store. */
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

  /** `unwritten`: the store failed or took too long; the charge is still booked only once. */
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
    // A process that stood still for so long has not waited for the store: it asks again. It also
    // does so if the store failed, because all connections may have been cut while it stood still.
    if (done === 'failed' || (!done && hasStalled)) {
      if (done) await Bun.sleep(reconnectMs);
      transaction = this.#startTransaction(batch, true);
      // The clients have waited for the first try already, unless the process stood still for it.
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

  /** `mayRepeat`: the change may have been made before. */
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
