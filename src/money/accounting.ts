import type { Call } from '../call.ts';
import { journalWaitMs } from '../core/bounds.ts';
import { GatewayError, unavailable } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../core/recording.ts';
import { isLongRecording } from '../core/recording.ts';
import type { EndedRequest } from '../telemetry/ended-request.ts';
import type { AccountingState } from '../telemetry/gauges.ts';
import { type Log, type LogFields, reason } from '../telemetry/log.ts';
import type { Hold } from './hold/hold.ts';
import { type HoldAmounts, Wallets } from './hold/wallets.ts';
import type { Booked, LedgerStore, Settlement } from './ledger.ts';
import { chargesOf, type SettlementEntry, toSettlementEntry } from './ledger.ts';
import { AnswerBatchWriter } from './settle/answer-batch-writer.ts';
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
  /** The clock by which leases end; without it, this process's own. */
  readonly now?: () => number;
  /** Called with every request that has ended, as it will be in the books. Must not throw. */
  onEnded(request: EndedRequest): void;
}

/** A journal that stays untouched for minutes is taken for a dead process's. */
const heartbeatMs = 30_000;

/**
 * How often the log repeats that nothing can be booked. Not at each failed try: every read of the
 * request log is one.
 */
const failureLogMs = 60_000;

/**
 * How long a stop waits for requests to settle: answers whose clients have left wait two seconds
 * for their usage. What has not ended by then is found in the journal by the next start.
 */
const closeWaitMs = 3_000;
const closePollMs = 10;

/** Wallets, journal and drain as one: what a request needs of the money, from hold to ledger. */
export class Accounting {
  readonly #wallets: Wallets;
  readonly #journal: Journal;
  readonly #batchWriter: BatchWriter;
  readonly #answerWriter: AnswerBatchWriter;
  readonly #longAnswerWriter: AnswerBatchWriter;
  readonly #lateReplay: LateReplay;
  readonly #log: Log;
  readonly #onEnded: AccountingDeps['onEnded'];
  /** Requests that were sent and have ended. */
  #finished = 0;
  /** How the last try to book failed; nothing once one has succeeded. */
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

  /** Books first what a predecessor left behind, then opens this process's own. */
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
      {
        everyMs: this.#lateReplay.everyMs,
        run: async () => logReplayed(this.#log, await this.#lateReplay.poll(Date.now())),
      },
    ];
  }

  hold(
    { caller, receivedAt }: Pick<Call, 'caller' | 'receivedAt'>,
    order: HoldAmounts,
  ): Hold | Promise<Hold> {
    this.#rejectWhenFull();
    return this.#wallets.hold(caller, order, receivedAt);
  }

  /** Throws while no request that costs could begin in this process, whatever the store says. */
  requireCapacity(): void {
    this.#rejectWhenFull();
    this.#journal.requireWritable();
  }

  #rejectWhenFull(): void {
    if (!this.#batchWriter.isFull) return;
    const message = 'Too many finished requests wait for the database; try again shortly.';
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5 });
  }

  dispatched(call: DispatchedRequest): Promise<void> {
    return this.#journal.dispatched(call);
  }

  /** Done once the settlement cannot be lost any more. */
  saveSettlement(settlement: Settlement, wasDispatched: boolean): void | Promise<void> {
    if (wasDispatched) return this.#saveDispatched(settlement);
    this.#onEnded(settlement.record);
    // What was never sent costs nothing: it may not fill memory or disk while the database is away.
    if (this.#batchWriter.isFull) return;
    const entry = toSettlementEntry(settlement);
    // A cache hit gave an answer, and its row is promised. A storm of refusals must not reach the
    // disk: the rows of refusals that are not committed yet are lost with a killed process.
    if (settlement.record.cacheHit) return this.#saveFree(entry);
    this.#batchWriter.add(entry);
  }

  /**
   * An answer that its `Idempotency-Key` gives again is paid for by whoever made it, even if we are
   * killed at this moment: the store takes both at once, or neither. While it is away the journal
   * has the charge, and the answer is known to this process alone.
   */
  async saveWithAnswer(
    answer: IdempotentAnswer,
    settlement: Settlement,
  ): Promise<AnswerWriteResult> {
    const writer = isLongRecording(answer.recording) ? this.#longAnswerWriter : this.#answerWriter;
    const result = await writer.book(answer, toSettlementEntry(settlement));
    if (result === 'unwritten') await this.#saveDispatched({ ...settlement, claim: answer.claim });
    else if (result === 'taken_over') this.#writeOff(settlement, claimTakenOver);
    else this.#finish(settlement);
    return result;
  }

  #committed(booked: readonly Booked[], requestIds: readonly string[]): void {
    this.#wallets.booked(booked);
    this.#journal.committed(requestIds);
    if (this.#failure) this.#log.info('booked_again');
    this.#failure = undefined;
  }

  #commitFailed(failure: LogFields): void {
    const isFirst = this.#failure === undefined;
    this.#failure = failure;
    if (isFirst) this.#logFailure();
  }

  #logFailure(): void {
    if (this.#failure) this.#log.error('drain_failed', this.#failure);
  }

  /** Written before it can be booked: a line that came later would stay in the journal for good. */
  async #saveFree(entry: SettlementEntry): Promise<void> {
    await this.#journal.settledFree(entry);
    this.#batchWriter.add(entry);
  }

  async #saveDispatched(settlement: Settlement): Promise<void> {
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
   * What cannot be written down is not charged: the client hears of a failure instead of the end
   * of its answer.
   */
  #failUnwritable(settlement: Settlement): never {
    this.#writeOff(settlement, journalUnwritable);
    const message = 'The journal cannot be written, so this answer cannot be completed.';
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

  /** Requests that were sent and have not ended. */
  get #requestsInFlight(): number {
    return this.#journal.started - this.#finished;
  }

  /** How far this process's books are behind its answers, for the operator to watch. */
  state(): AccountingState {
    const now = Date.now();
    return {
      ...this.#wallets.totals(),
      requestsInFlight: this.#requestsInFlight,
      journalBytes: this.#journal.bytes,
      journalAgeMs: this.#journal.ageMs(now),
      unbookedRequests: this.#batchWriter.waiting,
      bookingLagMs: this.#batchWriter.lagMs(now),
    };
  }

  /**
   * Shows a wallet as its owner sees it: only what running requests hold is not available. To be
   * asked for before the wallet is read.
   */
  withoutSpare(tenantId: string): WalletView {
    return subtractSpare(() => this.#wallets.spare(tenantId));
  }

  /** The same of all wallets together. */
  withoutSpares(): WalletView {
    return subtractSpare(() => this.#wallets.spareOfAll());
  }

  /**
   * Makes everything that has ended readable, or says that it cannot be read right now. For one
   * tenant, what it can read.
   */
  async flush(tenantId?: string): Promise<void> {
    try {
      await this.#batchWriter.flush(tenantId);
    } catch (cause) {
      throw unavailable('The store cannot be reached right now.', cause);
    }
  }

  /** What is read, by one tenant or of all, behind everything that has ended. */
  async readSettled<T>(read: () => Promise<T>, tenantId?: string): Promise<T> {
    await this.flush(tenantId);
    return read();
  }

  /** After the last request: books everything and gives the leases back. */
  async close(): Promise<void> {
    // Answers that were cut off settle a moment after their connections are gone. By turns and not
    // by the clock: a machine that stood still has kept them from it.
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

type WalletView = <W extends { readonly leased: number }>(wallet: W) => W;

/**
 * What is leased or given back while a wallet is read may be in it or not. With the larger of the
 * two numbers it is never taken for held.
 */
function subtractSpare(spare: () => number): WalletView {
  const before = spare();
  return (wallet) => {
    const leased = Math.max(0, wallet.leased - Math.max(before, spare()));
    return { ...wallet, leased };
  };
}

const journalUnwritable: Failure = {
  error: 'service_unavailable',
  note: 'The journal could not be written, so the answer was broken off and costs nothing.',
};

const claimTakenOver: Failure = {
  error: 'invalid_request_error',
  note: 'Another process answered this Idempotency-Key: this answer was not given, and is free.',
};

function failUnbooked(cause: unknown): never {
  const message = 'What was billed last is in the journal, for the next start here to book';
  throw new Error(`${message}: the store does not answer (${reason(cause)}).`, { cause });
}

function logJournalDamage(log: Log): OnDamaged {
  return (folder, lines) => log.error('journal_damaged', { folder, lines });
}

function logReplayed(log: Log, requests: number): void {
  if (requests > 0) log.info('journal_replayed', { requests });
}
