import { idempotencyLeaseMs, idempotencyWriteMs } from '../core/bounds.ts';
import type { NamedAnswer, Remembered } from '../core/claim.ts';
import { within } from '../core/within.ts';
import type { Booked, BookedAnswers, LedgerStore } from './ledger-store.ts';
import type { Slip } from './slip.ts';

/** Answers in one change: more would save little, and keep their accounts locked for longer. */
const batchMax = 50;
/** Characters of all answers in one change, unless the first alone has more. */
const batchLengthMax = 1_000_000;
/**
 * Claims are extended three times in a lease, so a process that stands still for two thirds of one
 * may lose them to others. Below that, they are still ours.
 */
const stillMsMax = idempotencyLeaseMs / 2;
/** Until the store has noticed which of its connections were cut, and uses new ones. */
const noticeMs = 50;

interface AnswerDrainParts {
  readonly store: Pick<LedgerStore, 'commitWith'>;
  readonly processId: string;
  /** Called with what a commit took from each account, and with the requests that it booked. */
  onCommit(booked: readonly Booked[], requestIds: readonly string[]): void;
}

interface WaitingAnswer {
  readonly answer: NamedAnswer;
  readonly slip: Slip;
  readonly tell: (how: Remembered) => void;
}

/**
 * Moves answers under idempotency keys into the store, each in one change with its charge. Those
 * that end while a change is under way share the next one: each by itself would keep its account
 * locked for several trips, and the requests of a tenant would stand in line at that lock.
 */
export class AnswerDrain {
  readonly #parts: AnswerDrainParts;
  readonly #writeMs: number;
  readonly #stillMs: number;
  #waiting: WaitingAnswer[] = [];
  #isRunning = false;
  /** The last change took too long, and has not ended yet: nobody else waits for the store. */
  #isLate = false;

  constructor(
    parts: AnswerDrainParts,
    writeMs: number = idempotencyWriteMs,
    stillMs: number = stillMsMax,
  ) {
    this.#parts = parts;
    this.#writeMs = writeMs;
    this.#stillMs = stillMs;
  }

  /** `unwritten`: the store failed or took too long; the charge is still booked only once. */
  book(answer: NamedAnswer, slip: Slip): Promise<Remembered> {
    if (this.#isLate) return Promise.resolve('unwritten');
    return new Promise((tell) => {
      this.#waiting.push({ answer, slip, tell });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) await this.#commit(this.#nextBatch());
    this.#isRunning = false;
  }

  #nextBatch(): readonly WaitingAnswer[] {
    let length = 0;
    const end = this.#waiting.findIndex(({ answer }, at) => {
      length += answer.recording?.text.length ?? 0;
      return at === batchMax || (at > 0 && length > batchLengthMax);
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  async #commit(batch: readonly WaitingAnswer[]): Promise<void> {
    const startedAt = performance.now();
    let change = this.#change(batch, false);
    let done = await within(change, this.#writeMs);
    const stoodStill = performance.now() - startedAt > this.#stillMs;
    // A process that stood still for so long has not waited for the store: it asks again. It also
    // does so if the store failed, because all connections may have been cut while it stood still.
    if (done === 'failed' || (!done && stoodStill)) {
      if (done) await Bun.sleep(noticeMs);
      change = this.#change(batch, true);
      // The clients have waited for the first try already, unless the process stood still for it.
      const leftMs = Math.max(noticeMs, this.#writeMs - (performance.now() - startedAt));
      done = await within(change, stoodStill ? this.#writeMs : leftMs);
    }
    if (done && done !== 'failed') {
      this.#parts.onCommit(done.booked, [...done.requestIds]);
      for (const { slip, tell } of batch) {
        tell(done.requestIds.has(slip.requestId) ? 'written' : 'taken_over');
      }
      return;
    }
    for (const { tell } of [...batch, ...this.#waiting.splice(0)]) tell('unwritten');
    this.#isLate = true;
    await change;
    this.#isLate = false;
  }

  /** `mayRepeat`: the change may have been made before. */
  #change(batch: readonly WaitingAnswer[], mayRepeat: boolean): Promise<BookedAnswers | 'failed'> {
    const { store, processId } = this.#parts;
    const slips = batch.map(({ slip }) => slip);
    const answers = batch.map(({ answer }) => answer);
    const terms = { processId, mayRepeat, now: Date.now() };
    return store.commitWith({ ...terms, slips }, answers).catch(() => 'failed' as const);
  }
}
