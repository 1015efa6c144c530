import type { Call } from '../call.ts';
import { journalWaitMs, unbookedMax } from '../core/bounds.ts';
import { GatewayError, unavailable } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../core/recording.ts';
import { isLongRecording } from '../core/recording.ts';
import { pluralize } from '../core/text.ts';
import type { EndedRequest } from '../telemetry/ended-request.ts';
import type { AccountingState } from '../telemetry/gauges.ts';
import { type Log, type LogFields, reason } from '../telemetry/log.ts';
import type { Hold } from './hold/hold.ts';
import { type HoldAmounts, Wallets } from './hold/wallets.ts';
import type { Booked, LedgerStore, Settlement } from './ledger.ts';
import { chargesOf, type SettlementEntry, toSettlementEntry } from './ledger.ts';
import { totalCharge } from './price/fee-kinds.ts';
import { AnswerBatchWriter } from './settle/answer-batch-writer.ts';
import { Backlog } from './settle/backlog.ts';
import { BatchWriter } from './settle/batch-writer.ts';
import { Journal } from './settle/journal.ts';
import type { DispatchedRequest } from './settle/journal-files.ts';
import { journalRoot } from './settle/journal-files.ts';
import { LateReplay, type OnDamaged, replayJournals } from './settle/replay.ts';
import { type Failure, withoutCharge } from './settle/write-off.ts';

export interface AccountingDeps {
  readonly store: LedgerStore;
  readonly dataDir: string;
  readonly durability: 'journal' | 'fsync';
  readonly processId: string;
  readonly log: Log;
  /** The clock for lease expiry. Defaults to this process's own. */
  readonly now?: () => number;
  /** Called with the record of every request that has ended. Must not throw. */
  onEnded(request: EndedRequest): void;
}

/** After several minutes without a heartbeat, other processes replay this process's journal. */
const heartbeatMs = 30_000;

/**
 * How often the log repeats that commits are failing. Each read of the request log tries to commit,
 * so logging every failure would flood the log.
 */
const failureLogMs = 60_000;
const backlogCheckMs = 1_000;

/**
 * How long `close()` waits for requests to settle. After a client disconnects, the gateway waits 2
 * seconds for the provider to report usage. The next startup replays requests that haven't settled
 * by then.
 */
const closeWaitMs = 3_000;
const closePollMs = 10;

/** Accounts for requests: holds credits, journals settlements, and commits them to the ledger. */
export class Accounting {
  readonly #wallets: Wallets;
  readonly #journal: Journal;
  readonly #batchWriter: BatchWriter;
  readonly #backlog = new Backlog();
  readonly #answerWriter: AnswerBatchWriter;
  readonly #longAnswerWriter: AnswerBatchWriter;
  readonly #lateReplay: LateReplay;
  readonly processId: string;
  readonly #log: Log;
  readonly #onEnded: AccountingDeps['onEnded'];
  /** Requests that were dispatched and have ended. */
  #finished = 0;
  /** The number of the next charge. */
  #nextNumber = 0;
  /** How the last commit failed; undefined after a success. */
  #failure: LogFields | undefined;

  private constructor({
    store,
    dataDir,
    durability,
    processId,
    log,
    now,
    onEnded,
  }: AccountingDeps) {
    this.#onEnded = onEnded;
    this.processId = processId;
    this.#log = log;
    this.#lateReplay = new LateReplay(
      journalRoot(dataDir),
      store,
      processId,
      logJournalDamage(log),
    );
    this.#wallets = new Wallets(store, processId, now);
    this.#journal = new Journal(journalRoot(dataDir), processId, durability);
    const onCommit = this.#committed.bind(this);
    this.#answerWriter = new AnswerBatchWriter({ store, processId, onCommit });
    this.#longAnswerWriter = new AnswerBatchWriter({ store, processId, onCommit });
    this.#batchWriter = new BatchWriter({
      store,
      processId,
      onCommit,
      onFailure: (waiting, error) => this.#commitFailed({ waiting, reason: reason(error) }),
    });
  }

  /** Replays journals of dead processes, then opens this process's own. */
  static async open(deps: AccountingDeps): Promise<Accounting> {
    const { dataDir, store, log } = deps;
    logReplayed(
      log,
      await replayJournals(journalRoot(dataDir), store, Date.now(), logJournalDamage(log)),
    );
    return new Accounting(deps);
  }

  periodicTasks(): PeriodicTask[] {
    return [
      ...this.#wallets.periodicTasks(),
      { everyMs: heartbeatMs, run: () => this.#journal.heartbeat() },
      { everyMs: failureLogMs, run: async () => this.#logFailure() },
      { everyMs: backlogCheckMs, run: async () => this.#checkBacklog() },
      {
        everyMs: this.#lateReplay.everyMs,
        run: async () => logReplayed(this.#log, await this.#lateReplay.poll(Date.now())),
      },
    ];
  }

  /** Holds credits. Returns a promise only if it needs the store. Throws 402, 503. */
  hold(
    { caller, receivedAt }: Pick<Call, 'caller' | 'receivedAt'>,
    amounts: HoldAmounts,
  ): Hold | Promise<Hold> {
    this.#rejectWhenFull();
    return this.#wallets.hold(caller, amounts, receivedAt);
  }

  /** Throws 503 if this process can't start requests that cost credits. */
  requireCapacity(): void {
    this.#rejectWhenFull();
    this.#journal.requireWritable();
  }

  #rejectWhenFull(): void {
    const seconds = this.#backlog.rejectionSeconds(this.#batchWriter.waiting);
    if (seconds === undefined) return;
    const wait = pluralize(seconds, 'second');
    const message = 'Too many finished requests are waiting for the database.';
    const details = { retryAfterSeconds: seconds };
    throw new GatewayError('service_unavailable', `${message} Try again in ${wait}.`, details);
  }

  /** Returns a sentence if booking falls behind, long before calls are rejected. */
  readonly warning = (): string | undefined => {
    if (!this.#backlog.isBehind) return undefined;
    const waiting = this.#batchWriter.waiting.toLocaleString('en-US');
    const seconds = Math.round(this.#batchWriter.lagMs(Date.now()) / 1000);
    return (
      `Booking is behind: ${waiting} finished requests wait for the database, ` +
      `the oldest for ${pluralize(seconds, 'second')}. ` +
      `From ${unbookedMax.toLocaleString('en-US')} on, new calls are rejected.`
    );
  };

  #checkBacklog(): void {
    const { waiting } = this.#batchWriter;
    const lagMs = this.#batchWriter.lagMs(Date.now());
    const change = this.#backlog.update({ waiting, lagMs });
    if (change === undefined) return;
    const fields = {
      waiting,
      waiting_max: unbookedMax,
      lag_seconds: Math.round(lagMs / 1000),
      booked_per_second: Math.round(this.#backlog.perSecond()),
    };
    if (change === 'behind') this.#log.warn('booking_behind', fields);
    else this.#log.info('booking_caught_up', fields);
  }

  dispatched(call: DispatchedRequest): Promise<void> {
    return this.#journal.dispatched(call);
  }

  /** Saves a settlement. Returns a promise if saving has to wait. */
  saveSettlement(settlement: Settlement, wasDispatched: boolean): void | Promise<void> {
    if (wasDispatched) return this.#saveDispatched(settlement);
    this.#onEnded(settlement.record);
    // Requests that were never sent cost nothing and must not fill the memory while the database is
    // down.
    if (this.#batchWriter.isFull) return;
    const entry = toSettlementEntry(settlement);
    // Cache hits are journaled, because their clients got an answer. Rejections aren't, so that
    // they can't fill the disk. A killed process loses the rejections that it hasn't committed.
    if (settlement.record.cacheHit) return this.#saveFree(entry);
    this.#batchWriter.add(entry);
  }

  /**
   * Saves a settlement together with the answer it pays for, in one transaction, so that a crash
   * can't separate them. If the store is down, the settlement goes to the journal, and only this
   * process can replay the answer.
   */
  async saveWithAnswer(
    answer: IdempotentAnswer,
    unnumbered: Settlement,
  ): Promise<AnswerWriteResult> {
    // Numbered before the commit, whose confirmation can be lost.
    const settlement = this.#withNumber(unnumbered);
    const writer = isLongRecording(answer.recording) ? this.#longAnswerWriter : this.#answerWriter;
    const result = await writer.book(answer, toSettlementEntry(settlement));
    if (result === 'unwritten') await this.#saveDispatched({ ...settlement, claim: answer.claim });
    else if (result === 'taken_over') this.#writeOff(settlement, answeredElsewhere);
    else this.#finish(settlement);
    return result;
  }

  #committed(booked: readonly Booked[], requestIds: readonly string[]): void {
    this.#wallets.booked(booked);
    this.#journal.committed(requestIds);
    this.#backlog.booked(requestIds.length);
    if (this.#failure) this.#log.info('booking_recovered');
    this.#failure = undefined;
  }

  #commitFailed(failure: LogFields): void {
    const isFirst = this.#failure === undefined;
    this.#failure = failure;
    if (isFirst) this.#logFailure();
  }

  #logFailure(): void {
    if (this.#failure) this.#log.error('booking_failed', this.#failure);
  }

  /** Journals before committing, because a line written after the commit would never be removed. */
  async #saveFree(entry: SettlementEntry): Promise<void> {
    await this.#journal.settledFree(entry);
    this.#batchWriter.add(entry);
  }

  #withNumber(settlement: Settlement): Settlement {
    const { record, journalNumber } = settlement;
    if (journalNumber !== undefined || totalCharge(record.charges) === 0) return settlement;
    return { ...settlement, journalNumber: this.#nextNumber++ };
  }

  async #saveDispatched(unnumbered: Settlement): Promise<void> {
    const settlement = this.#withNumber(unnumbered);
    const entry = toSettlementEntry(settlement);
    try {
      await this.#journal.settled(entry);
    } catch {
      if (!(await this.#journal.settledLate(entry, journalWaitMs)))
        this.#failUnwritable(settlement);
    }
    this.#batchWriter.add(entry);
    this.#finish(settlement);
  }

  /**
   * Cancels a charge that can't be journaled. The client gets an error instead of the end of the
   * answer.
   */
  #failUnwritable(settlement: Settlement): never {
    this.#writeOff(settlement, journalUnwritable);
    const message = "The gateway can't write its journal, so it can't complete this answer.";
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5 });
  }

  #writeOff(settlement: Settlement, failure: Failure): void {
    const writtenOff = withoutCharge(settlement, failure);
    this.#wallets.cancelCharges(chargesOf(settlement));
    this.#batchWriter.add(toSettlementEntry(writtenOff));
    this.#finish(writtenOff);
  }

  #finish({ record }: Settlement): void {
    this.#finished += 1;
    this.#onEnded(record);
  }

  /** Requests that were dispatched and haven't ended. */
  get #requestsInFlight(): number {
    return this.#journal.started - this.#finished;
  }

  /** Returns how far this process's commits lag behind its answers, for metrics. */
  state(): AccountingState {
    const now = Date.now();
    return {
      ...this.#wallets.totals(),
      requestsInFlight: this.#requestsInFlight,
      journalBytes: this.#journal.bytes,
      journalAgeMs: this.#journal.ageMs(now),
      unbookedRequests: this.#batchWriter.waiting,
      bookingLagMs: this.#batchWriter.lagMs(now),
      bookedRequests: this.#backlog.bookedRequests,
      isBookingBehind: this.#backlog.isBehind,
    };
  }

  /**
   * Adds what running requests of this process hold to a wallet that was read without them, or to
   * the sum of all wallets.
   */
  withOwnHolds<W extends { readonly held: number }>(wallet: W, tenantId?: string): W {
    return { ...wallet, held: wallet.held + this.#wallets.heldCredits(tenantId) };
  }

  /** Commits all settlements added so far, or only those that one tenant can read. Throws 503. */
  async flush(tenantId?: string): Promise<void> {
    try {
      await this.#batchWriter.flush(tenantId);
    } catch (cause) {
      throw unavailable("The database can't be reached right now.", cause);
    }
  }

  /** Commits the settlements of ended requests, then reads. Throws 503. */
  async readSettled<T>(read: () => Promise<T>, tenantId?: string): Promise<T> {
    await this.flush(tenantId);
    return read();
  }

  /** Commits everything and returns the leases. Called after the last request. */
  async close(): Promise<void> {
    // Interrupted answers settle shortly after their connections close. Count polls rather than
    // time, because a suspended machine delays settling too.
    for (
      let polls = closeWaitMs / closePollMs;
      this.#requestsInFlight > 0 && polls > 0;
      polls -= 1
    ) {
      await Bun.sleep(closePollMs);
    }
    await this.#batchWriter.flush().catch(failUnbooked);
    await this.#wallets.returnAll();
    this.#journal.close();
  }
}

const journalUnwritable: Failure = {
  error: 'service_unavailable',
  note: "The journal couldn't be written, so the answer was interrupted. Nothing is charged.",
};

const answeredElsewhere: Failure = {
  error: 'invalid_request_error',
  note: 'Another process answered this Idempotency-Key, so this answer was discarded and is free.',
};

function failUnbooked(cause: unknown): never {
  const message = `The store isn't responding (${reason(cause)})`;
  const note = 'The last charges are in the journal and will be committed at the next startup.';
  throw new Error(`${message}. ${note}`, { cause });
}

function logJournalDamage(log: Log): OnDamaged {
  return (folder, lines) => log.error('journal_damaged', { folder, lines });
}

function logReplayed(log: Log, requests: number): void {
  if (requests > 0) log.info('journal_replayed', { requests });
}
