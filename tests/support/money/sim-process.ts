/**
 * The accounting of one gateway process: wallets, journal, and batch writer, connected as in
 * `money/accounting.ts`. Its store can fail on demand, and the test sets its clock.
 */
import { join } from 'node:path';
import type { ClaimStore } from '../../../src/cache/idempotency.ts';
import { Idempotency } from '../../../src/cache/idempotency.ts';
import type { Caller } from '../../../src/core/caller.ts';
import { GatewayError } from '../../../src/core/errors.ts';
import { randomText } from '../../../src/core/ids.ts';
import type {
  AnswerWriteResult,
  IdempotentAnswer,
  InFlightEntry,
} from '../../../src/core/recording.ts';
import type { Hold } from '../../../src/money/hold/hold.ts';
import { type HoldAmounts, Wallets } from '../../../src/money/hold/wallets.ts';
import type { LedgerStore, Settlement } from '../../../src/money/ledger.ts';
import { chargesOf, toSettlementEntry } from '../../../src/money/ledger.ts';
import { AnswerBatchWriter } from '../../../src/money/settle/answer-batch-writer.ts';
import { BatchWriter } from '../../../src/money/settle/batch-writer.ts';
import { Journal } from '../../../src/money/settle/journal.ts';
import { replayJournals } from '../../../src/money/settle/replay.ts';
import { withoutCharge } from '../../../src/money/settle/write-off.ts';
import { withStoreClock } from '../../../src/store/clock.ts';
import { unlockJournals } from './journal-line.ts';
import { settlementOf } from './settlements.ts';

/**
 * `unreachable`: the call fails and has no effect. `lost`: the call succeeds, but the response is
 * lost. `late`: the response arrives after those of later calls. `slow`: the call also runs later.
 */
export type Fault = 'unreachable' | 'lost' | 'late' | 'late and lost' | 'slow' | 'slow and lost';
export type StoreCall = keyof LedgerStore | 'claim' | 'extend' | 'finish' | 'release';

const lateMs = 12;
/** How long a request waits until its answer is stored. Shorter than `lateMs`. */
const writeMs = 8;
/** An aborted signal, so that a request doesn't wait for the answer of a concurrent one. */
const aborted = AbortSignal.abort();

/** The test's record of a request, to compare with the ledger. */
export interface SimRequest {
  readonly id: string;
  readonly tenantId: string;
  readonly createdAt: number;
  /** The charge requested at the end. Null while the request runs. */
  requestedCharge: number | null;
  /** The credits held when the request ended. */
  held: number;
  /** The account of the key's limit. */
  readonly keyAccount: string | null;
  keyCharge: number;
  /** True if the client received the end of the answer, sent after the journal line is written. */
  clientSawEnd: boolean;
  /** Null if there is no key, and after the client has disconnected. */
  idempotencyKey: string | null;
}

interface OpenRequest {
  readonly request: SimRequest;
  readonly hold: Hold;
  readonly caller: Caller;
  readonly inFlight: InFlightEntry | undefined;
}

/** An answer replayed for an idempotency key, and the request that was answered first. */
export interface ReplayedAnswer {
  readonly idempotencyKey: string;
  readonly requestId: string;
}

export class SimProcess {
  readonly wallets: Wallets;
  readonly #batchWriter: BatchWriter;
  readonly #answers: AnswerBatchWriter;
  readonly #idempotency: Idempotency;
  readonly #journal: Journal;
  #nextNumber = 0;
  readonly #root: string;
  readonly #processId: string;
  readonly #store: LedgerStore;
  readonly open: OpenRequest[] = [];
  readonly requests: SimRequest[] = [];
  readonly replayed: ReplayedAnswer[] = [];
  readonly #now: () => number;
  renewedAt: number;
  dead = false;
  readonly #calls = new Set<Promise<unknown>>();
  readonly #faults = new Map<StoreCall, Fault>();

  constructor(store: LedgerStore, claims: ClaimStore, folder: string, now: () => number) {
    const processId = randomText(16);
    this.#processId = processId;
    this.#now = now;
    this.renewedAt = now();
    this.#store = store;
    this.#root = join(folder, processId);
    const faulty = withStoreClock(this.#faulty(store), { now, sync: async () => undefined });
    this.wallets = new Wallets(faulty, processId, now, () => Bun.sleep(1));
    this.#journal = new Journal(this.#root, processId, 'journal');
    const onCommit: ConstructorParameters<typeof AnswerBatchWriter>[0]['onCommit'] = (
      booked,
      ids,
    ) => {
      this.wallets.booked(booked);
      this.#journal.committed(ids);
    };
    this.#answers = new AnswerBatchWriter({ store: faulty, processId, onCommit }, writeMs);
    this.#idempotency = new Idempotency(this.#faultyClaims(claims), now, writeMs);
    const onFailure = () => undefined;
    this.#batchWriter = new BatchWriter({ store: faulty, processId, onCommit, onFailure });
  }

  /** Injects a fault into the next call of this kind. */
  fail(call: StoreCall, fault: Fault): void {
    this.#faults.set(call, fault);
  }

  /** Removes all faults and waits for all calls. */
  async waitForCalls(): Promise<void> {
    this.#faults.clear();
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
    // A commit that was already running may still fail.
    await this.flush().catch(() => this.flush());
  }

  /** Begins a request, unless its idempotency key gets a replay or an error. */
  async begin(caller: Caller, order: HoldAmounts, idempotencyKey: string | null): Promise<void> {
    const id = crypto.randomUUID();
    const createdAt = this.#now();
    const inFlight =
      idempotencyKey === null ? undefined : await this.#lookUp(caller, idempotencyKey, id);
    if (idempotencyKey !== null && !inFlight) return;
    let hold: Hold;
    try {
      hold = await this.wallets.hold(caller, order, createdAt);
    } catch {
      await inFlight?.release();
      return;
    }
    if (this.dead) return;
    const { tenantId, keyId } = caller;
    const { keyAccount } = hold;
    const running = { requestedCharge: null, held: 0, keyCharge: 0, clientSawEnd: false };
    const request = { id, tenantId, keyAccount, createdAt, idempotencyKey, ...running };
    this.requests.push(request);
    const { operation, requestedModel, streamed } = settlementOf(id, caller, 0).record;
    const call = { requestId: id, tenantId, keyId, operation, requestedModel, streamed, createdAt };
    await this.#journal.dispatched(call);
    this.open.push({ request, hold, caller, inFlight });
  }

  /** Extends a running request's hold, if credits are left and the store is reachable. */
  async extend(position: number, credits: number, minimum = credits): Promise<void> {
    await this.open[position]?.hold.extend(credits, minimum).catch((error: unknown) => {
      const isAway = error instanceof GatewayError && error.symbol === 'service_unavailable';
      if (!isAway) throw error;
    });
  }

  /** Returns the in-flight entry to complete, or undefined if the request ends here. */
  async #lookUp(
    { tenantId }: Caller,
    idempotencyKey: string,
    requestId: string,
  ): Promise<InFlightEntry | undefined> {
    const claim = { tenantId, key: idempotencyKey, fingerprint: 'f', requestId };
    try {
      const result = await this.#idempotency.lookUp(claim, aborted, ({ text }) => text);
      if ('inFlight' in result) return result.inFlight;
      if (!this.dead) this.replayed.push({ idempotencyKey, requestId: result.found });
    } catch {
      // A concurrent request has the same key, or the store is unreachable.
    }
    return undefined;
  }

  async finish(
    position: number,
    charge: (held: number) => number,
    isDisconnected = false,
  ): Promise<void> {
    const [finished] = this.open.splice(position, 1);
    if (!finished) return;
    const { request, hold, caller, inFlight } = finished;
    if (isDisconnected) {
      request.idempotencyKey = null;
      await inFlight?.release();
    }
    const requestedCharge = charge(hold.credits);
    request.held = hold.credits;
    request.requestedCharge = requestedCharge;
    const charged = await hold.settle(requestedCharge);
    request.keyCharge = charged.key;
    const { createdAt } = request;
    const settlement: Settlement = {
      ...settlementOf(request.id, caller, charged.wallet, { cancelled: isDisconnected, createdAt }),
      writtenOff: requestedCharge - charged.wallet,
      keyAccount: hold.keyAccount,
      keyCharge: charged.key,
      ...(charged.wallet > 0 ? { journalNumber: this.#nextNumber++ } : {}),
    };
    if (this.dead) return;
    try {
      if (inFlight && !isDisconnected) await this.#answer(inFlight, settlement);
      else await this.#save(settlement);
    } catch {
      return;
    }
    request.clientSawEnd = !this.dead;
  }

  #answer(inFlight: InFlightEntry, settlement: Settlement): Promise<void> {
    const { requestId } = settlement.record;
    const recording = { dialect: '', form: 'reply', model: '', provider: '' } as const;
    return inFlight.finish(
      { ...recording, text: requestId },
      {
        saveSettlement: () => this.#save(settlement),
        saveWithAnswer: (answer) => this.#saveWithAnswer(answer, settlement),
      },
    );
  }

  async #saveWithAnswer(
    answer: IdempotentAnswer,
    settlement: Settlement,
  ): Promise<AnswerWriteResult> {
    const result = await this.#answers.book(answer, toSettlementEntry(settlement));
    if (this.dead) throw new Error('The process has crashed.');
    if (result === 'unwritten') await this.#save({ ...settlement, claim: answer.claim });
    if (result === 'taken_over') {
      this.wallets.cancelCharges(chargesOf(settlement));
      const forgiven = withoutCharge(settlement, { error: 'invalid_request_error', note: null });
      this.#batchWriter.add(toSettlementEntry(forgiven));
    }
    return result;
  }

  async #save(settlement: Settlement): Promise<void> {
    const entry = toSettlementEntry(settlement);
    await this.#journal.settled(entry);
    this.#batchWriter.add(entry);
  }

  /** Renews this process's claims and repeats claim updates that failed. */
  async runClaimTasks(): Promise<void> {
    for (const { run } of this.#idempotency.periodicTasks()) await run();
  }

  async renew(): Promise<void> {
    const now = this.#now();
    await this.wallets.renew();
    this.renewedAt = now;
  }

  flush(): Promise<void> {
    return this.#batchWriter.flush();
  }

  get processId(): string {
    return this.#processId;
  }

  /** Ends the process like SIGKILL: memory is lost, but the store and the journal remain. */
  async crash(now: number): Promise<void> {
    this.dead = true;
    // Lets a line that is being written reach the disk.
    await new Promise((resolve) => setImmediate(resolve));
    unlockJournals(this.#root);
    await replayJournals(this.#root, this.#store, now);
  }

  async stop(): Promise<void> {
    await this.flush();
    await this.wallets.returnAll();
    this.#journal.close();
  }

  #call<T>(name: StoreCall, act: () => Promise<T>): Promise<T> {
    const call = this.#callFaulty(name, act).finally(() => this.#calls.delete(call));
    this.#calls.add(call);
    return call;
  }

  async #callFaulty<T>(name: StoreCall, act: () => Promise<T>): Promise<T> {
    const fault = this.dead ? 'unreachable' : this.#faults.get(name);
    this.#faults.delete(name);
    if (fault === 'unreachable') throw new Error('The store is unreachable.');
    if (fault?.startsWith('slow')) await Bun.sleep(lateMs);
    const answer = await act();
    if (fault?.startsWith('late')) await Bun.sleep(lateMs);
    if (fault?.endsWith('lost') || this.dead) throw new Error('The response was lost.');
    return answer;
  }

  #faultyClaims(store: ClaimStore): ClaimStore {
    return {
      claim: (...args) => this.#call('claim', () => store.claim(...args)),
      extend: (...args) => this.#call('extend', () => store.extend(...args)),
      finish: (answer) => this.#call('finish', () => store.finish(answer)),
      release: (claim) => this.#call('release', () => store.release(claim)),
      removeExpired: (now) => store.removeExpired(now),
      storedBytes: () => store.storedBytes(),
    };
  }

  #faulty(store: LedgerStore): LedgerStore {
    const call = this.#call.bind(this);
    return {
      lease: (order) => call('lease', () => store.lease(order)),
      returnCredits: (back) => call('returnCredits', () => store.returnCredits(back)),
      renew: (id, until) => call('renew', () => store.renew(id, until)),
      expire: (at, dead) => call('expire', () => store.expire(at, dead)),
      recall: (owner, id) => call('recall', () => store.recall(owner, id)),
      pendingRecalls: (id) => call('pendingRecalls', () => store.pendingRecalls(id)),
      reportHolds: (id, holds) => call('reportHolds', () => store.reportHolds(id, holds)),
      commitWithAnswers: (...args) =>
        call('commitWithAnswers', () => store.commitWithAnswers(...args)),
      // Otherwise the batch writer of a dead process would retry forever.
      commit: (batch) =>
        this.dead ? Promise.resolve([]) : call('commit', () => store.commit(batch)),
    };
  }
}
