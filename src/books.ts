import type { Call } from './call.ts';
import { journalWaitMs } from './core/bounds.ts';
import type { Chore } from './core/chore.ts';
import type { NamedAnswer, Remembered } from './core/claim.ts';
import { GatewayError, unavailable } from './core/errors.ts';
import { isLong } from './core/recording.ts';
import { AnswerDrain } from './ledger/answer-drain.ts';
import { chargesOf } from './ledger/charges.ts';
import { Drain } from './ledger/drain.ts';
import type { Hold } from './ledger/hold.ts';
import { Journal } from './ledger/journal.ts';
import { journalRoot } from './ledger/journal-folder.ts';
import type { Dispatched } from './ledger/journal-lines.ts';
import type { Booked, LedgerStore, Settlement } from './ledger/ledger-store.ts';
import { LateReplay, type OnDamaged, replayJournals } from './ledger/replay.ts';
import { type Slip, slipOf } from './ledger/slip.ts';
import { type HoldOrder, Wallets } from './ledger/wallets.ts';
import { type Failure, withoutCharge } from './ledger/write-off.ts';
import type { EndedRequest } from './telemetry/ended-request.ts';
import type { BooksState } from './telemetry/gauges.ts';
import { type Log, type LogFields, reason } from './telemetry/log.ts';

export interface BooksParts {
  readonly store: LedgerStore;
  readonly dataDir: string;
  readonly durability: 'journal' | 'fsync';
  readonly processId: string;
  readonly log: Log;
  /** The clock by which leases end; without it, this process's own. */
  readonly now?: () => number;
  /** Called with every request that has ended, as it will be in the books. Must not throw. */
  ended(request: EndedRequest): void;
}

/** A journal that stays untouched for minutes is taken for a dead process's. */
const beatMs = 30_000;

/**
 * How often the log repeats that nothing can be booked. Not at each failed try: every read of the
 * request log is one.
 */
const complaintMs = 60_000;

/**
 * How long a stop waits for requests to settle: answers whose clients have left wait two seconds
 * for their usage. What has not ended by then is found in the journal by the next start.
 */
const closeWaitMs = 3_000;
const turnMs = 10;

/** Wallets, journal and drain as one: what a request needs of the money, from hold to ledger. */
export class Books {
  readonly #wallets: Wallets;
  readonly #journal: Journal;
  readonly #drain: Drain;
  readonly #answers: AnswerDrain;
  readonly #longAnswers: AnswerDrain;
  readonly #late: LateReplay;
  readonly #log: Log;
  readonly #ended: BooksParts['ended'];
  /** Requests that were sent and have ended. */
  #finished = 0;
  /** How the last try to book failed; nothing once one has succeeded. */
  #failure: LogFields | undefined;

  private constructor({ store, dataDir, durability, processId, log, now, ended }: BooksParts) {
    this.#ended = ended;
    this.#log = log;
    this.#late = new LateReplay(journalRoot(dataDir), store, processId, logDamage(log));
    this.#wallets = new Wallets(store, processId, now);
    this.#journal = new Journal(journalRoot(dataDir), processId, durability);
    const onCommit = this.#booked.bind(this);
    this.#answers = new AnswerDrain({ store, processId, onCommit });
    this.#longAnswers = new AnswerDrain({ store, processId, onCommit });
    this.#drain = new Drain({
      store,
      processId,
      onCommit,
      onFailure: (waiting, thrown) => this.#notBooked({ waiting, reason: reason(thrown) }),
    });
  }

  /** Books first what a predecessor left behind, then opens this process's own. */
  static async open(parts: BooksParts): Promise<Books> {
    const { dataDir, store, log } = parts;
    logReplayed(log, await replayJournals(journalRoot(dataDir), store, Date.now(), logDamage(log)));
    return new Books(parts);
  }

  chores(): Chore[] {
    return [
      ...this.#wallets.chores(),
      { everyMs: beatMs, run: () => this.#journal.beat() },
      { everyMs: complaintMs, run: async () => this.#complain() },
      {
        everyMs: this.#late.everyMs,
        run: async () => logReplayed(this.#log, await this.#late.look(Date.now())),
      },
    ];
  }

  hold(
    { caller, receivedAt }: Pick<Call, 'caller' | 'receivedAt'>,
    order: HoldOrder,
  ): Hold | Promise<Hold> {
    this.#refuseWhenFull();
    return this.#wallets.hold(caller, order, receivedAt);
  }

  /** Throws while no request that costs could begin in this process, whatever the store says. */
  requireRoom(): void {
    this.#refuseWhenFull();
    this.#journal.requireRoom();
  }

  #refuseWhenFull(): void {
    if (!this.#drain.isFull) return;
    const message = 'Too many finished requests wait for the database; try again shortly.';
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5 });
  }

  dispatched(call: Dispatched): Promise<void> {
    return this.#journal.dispatched(call);
  }

  /** Done once the settlement cannot be lost any more. */
  keep(settlement: Settlement, wasDispatched: boolean): void | Promise<void> {
    if (wasDispatched) return this.#keepSent(settlement);
    this.#ended(settlement.record);
    // What was never sent costs nothing: it may not fill memory or disk while the database is away.
    if (this.#drain.isFull) return;
    const slip = slipOf(settlement);
    // A cache hit gave an answer, and its row is promised. A storm of refusals must not reach the
    // disk: the rows of refusals that are not committed yet are lost with a killed process.
    if (settlement.record.cacheHit) return this.#keepFree(slip);
    this.#drain.add(slip);
  }

  /**
   * An answer that its `Idempotency-Key` gives again is paid for by whoever made it, even if we are
   * killed at this moment: the store takes both at once, or neither. While it is away the journal
   * has the charge, and the answer is known to this process alone.
   */
  async keepWith(answer: NamedAnswer, settlement: Settlement): Promise<Remembered> {
    const line = isLong(answer.recording) ? this.#longAnswers : this.#answers;
    const how = await line.book(answer, slipOf(settlement));
    if (how === 'unwritten') await this.#keepSent({ ...settlement, claim: answer.claim });
    else if (how === 'taken_over') this.#forgive(settlement, takenOver);
    else this.#finish(settlement);
    return how;
  }

  #booked(booked: readonly Booked[], requestIds: readonly string[]): void {
    this.#wallets.booked(booked);
    this.#journal.drained(requestIds);
    if (this.#failure) this.#log.info('booked_again');
    this.#failure = undefined;
  }

  #notBooked(failure: LogFields): void {
    const isFirst = this.#failure === undefined;
    this.#failure = failure;
    if (isFirst) this.#complain();
  }

  #complain(): void {
    if (this.#failure) this.#log.error('drain_failed', this.#failure);
  }

  /** Written before it can be booked: a line that came later would stay in the journal for good. */
  async #keepFree(slip: Slip): Promise<void> {
    await this.#journal.settledFree(slip);
    this.#drain.add(slip);
  }

  async #keepSent(settlement: Settlement): Promise<void> {
    const slip = slipOf(settlement);
    try {
      await this.#journal.settled(slip);
    } catch {
      if (!(await this.#journal.settledLate(slip, journalWaitMs))) this.#giveUp(settlement);
    }
    this.#drain.add(slip);
    this.#finish(settlement);
  }

  /**
   * What cannot be written down is not charged: the client hears of a failure instead of the end
   * of its answer.
   */
  #giveUp(settlement: Settlement): never {
    this.#forgive(settlement, unwritable);
    const message = 'The journal cannot be written, so this answer cannot be completed.';
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5 });
  }

  #forgive(settlement: Settlement, failure: Failure): void {
    const forgiven = withoutCharge(settlement, failure);
    this.#wallets.forgive(chargesOf(settlement));
    this.#drain.add(slipOf(forgiven));
    this.#finish(forgiven);
  }

  #finish({ record }: Settlement): void {
    this.#finished += 1;
    this.#ended(record);
  }

  /** Requests that were sent and have not ended. */
  get #underWay(): number {
    return this.#journal.begun - this.#finished;
  }

  /** How far this process's books are behind its answers, for the operator to watch. */
  state(): BooksState {
    const now = Date.now();
    return {
      ...this.#wallets.totals(),
      requestsUnderWay: this.#underWay,
      journalBytes: this.#journal.bytes,
      journalAgeMs: this.#journal.ageMs(now),
      drainWaiting: this.#drain.waiting,
      drainLagMs: this.#drain.lagMs(now),
    };
  }

  /**
   * Shows a wallet as its owner sees it: only what running requests hold is not available. To be
   * asked for before the wallet is read.
   */
  withoutSpare(tenantId: string): Shown {
    return lessSpare(() => this.#wallets.spare(tenantId));
  }

  /** The same of all wallets together. */
  withoutSpares(): Shown {
    return lessSpare(() => this.#wallets.spareOfAll());
  }

  /**
   * Makes everything that has ended readable, or says that it cannot be read right now. For one
   * tenant, what it can read.
   */
  async flush(tenantId?: string): Promise<void> {
    try {
      await this.#drain.flush(tenantId);
    } catch (cause) {
      throw unavailable('The store cannot be reached right now.', cause);
    }
  }

  /** What is read, by one tenant or of all, behind everything that has ended. */
  async settled<T>(read: () => Promise<T>, tenantId?: string): Promise<T> {
    await this.flush(tenantId);
    return read();
  }

  /** After the last request: books everything and gives the leases back. */
  async close(): Promise<void> {
    // Answers that were cut off settle a moment after their connections are gone. By turns and not
    // by the clock: a machine that stood still has kept them from it.
    for (let turns = closeWaitMs / turnMs; this.#underWay > 0 && turns > 0; turns -= 1) {
      await Bun.sleep(turnMs);
    }
    await this.#drain.flush().catch(leftToNextStart);
    await this.#wallets.stop();
    this.#journal.close();
  }
}

type Shown = <W extends { readonly leased: number }>(wallet: W) => W;

/**
 * What is leased or given back while a wallet is read may be in it or not. With the larger of the
 * two numbers it is never taken for held.
 */
function lessSpare(spare: () => number): Shown {
  const before = spare();
  return (wallet) => {
    const leased = Math.max(0, wallet.leased - Math.max(before, spare()));
    return { ...wallet, leased };
  };
}

const unwritable: Failure = {
  error: 'service_unavailable',
  note: 'The journal could not be written, so the answer was broken off and costs nothing.',
};

const takenOver: Failure = {
  error: 'invalid_request_error',
  note: 'Another process answered this Idempotency-Key: this answer was not given, and is free.',
};

function leftToNextStart(cause: unknown): never {
  const message = 'What was billed last is in the journal, for the next start here to book';
  throw new Error(`${message}: the store does not answer (${reason(cause)}).`, { cause });
}

function logDamage(log: Log): OnDamaged {
  return (folder, lines) => log.error('journal_damaged', { folder, lines });
}

function logReplayed(log: Log, requests: number): void {
  if (requests > 0) log.info('journal_replayed', { requests });
}
