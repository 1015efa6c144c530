/**
 * The money part of a gateway alone: wallets, journal and drain connected as in `books.ts`, on a
 * store that can be made to fail, with a clock that the test moves.
 */
import { join } from 'node:path';
import type { ClaimStore } from '../../../src/cache/idempotency.ts';
import { Idempotency } from '../../../src/cache/idempotency.ts';
import type { InFlightEntry } from '../../../src/cache/in-flight-entry.ts';
import type { Caller } from '../../../src/core/caller.ts';
import { GatewayError } from '../../../src/core/errors.ts';
import { randomText } from '../../../src/core/ids.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../../../src/core/recording.ts';
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
import { settlementOf } from './settlements.ts';

/**
 * `away`: the call does nothing and fails. `lost`: it succeeds, but its answer is lost. `late`: its
 * answer comes after those of later calls. `slow`: it is also executed after later calls.
 */
export type Fault = 'away' | 'lost' | 'late' | 'late and lost' | 'slow' | 'slow and lost';
export type StoreCall = keyof LedgerStore | 'claim' | 'extend' | 'finish' | 'release';

const lateMs = 12;
/**
 * How long a request waits for its answer to be written: less than `lateMs`, so that it does not
 * wait for a late store.
 */
const writeMs = 8;
/** An aborted signal: the request does not wait for an answer that another request is making. */
const hasLeft = AbortSignal.abort();

/** The test's own record of a request, to compare the books with. */
export interface SimRequest {
  readonly id: string;
  readonly tenantId: string;
  readonly createdAt: number;
  /** The charge asked for at the end; null while the request runs. */
  asked: number | null;
  /** The credits held when the request ended. */
  held: number;
  /** The account of the key's limit, and the charge on it. */
  readonly keyAccount: string | null;
  keyCharge: number;
  /** Whether the client saw the end, which it does not before the journal has it. */
  seen: boolean;
  /** The idempotency key; also null once the client has left. */
  name: string | null;
}

interface OpenRequest {
  readonly request: SimRequest;
  readonly hold: Hold;
  readonly caller: Caller;
  readonly duty: InFlightEntry | undefined;
}

/** An answer repeated for an idempotency key, and the request that made it. */
export interface ReplayedAnswer {
  readonly name: string;
  readonly maker: string;
}

export class SimProcess {
  readonly wallets: Wallets;
  readonly #drain: BatchWriter;
  readonly #answers: AnswerBatchWriter;
  readonly #idempotency: Idempotency;
  readonly #journal: Journal;
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
    const faulty = withStoreClock(this.#faulty(store), { now, set: async () => undefined });
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
    this.#drain = new BatchWriter({ store: faulty, processId, onCommit, onFailure });
  }

  /** Makes the next call of this kind fail in this way. */
  fail(call: StoreCall, fault: Fault): void {
    this.#faults.set(call, fault);
  }

  /** Stops all faults and waits until every call is answered, even those nobody waits for. */
  async rest(): Promise<void> {
    this.#faults.clear();
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
    // A commit that was already running may still fail as it was told to.
    await this.flush().catch(() => this.flush());
  }

  /** Begins a request. With an idempotency key it is begun, answered from the store, or refused. */
  async begin(caller: Caller, order: HoldAmounts, name: string | null): Promise<void> {
    const id = crypto.randomUUID();
    const createdAt = this.#now();
    const duty = name === null ? undefined : await this.#recall(caller, name, id);
    if (name !== null && !duty) return;
    let hold: Hold;
    try {
      hold = await this.wallets.hold(caller, order, createdAt);
    } catch {
      await duty?.release();
      return;
    }
    if (this.dead) return;
    const { tenantId, keyId } = caller;
    const { keyAccount } = hold;
    const unended = { asked: null, held: 0, keyCharge: 0, seen: false };
    const request = { id, tenantId, keyAccount, createdAt, name, ...unended };
    this.requests.push(request);
    const { operation, requestedModel, streamed } = settlementOf(id, caller, 0).record;
    const call = { requestId: id, tenantId, keyId, operation, requestedModel, streamed, createdAt };
    await this.#journal.dispatched(call);
    this.open.push({ request, hold, caller, duty });
  }

  /** Sets more credits aside for a running request, unless there are none or the store is away. */
  async extend(which: number, wanted: number, least = wanted): Promise<void> {
    await this.open[which]?.hold.extend(wanted, least).catch((error: unknown) => {
      const isAway = error instanceof GatewayError && error.symbol === 'service_unavailable';
      if (!isAway) throw error;
    });
  }

  /** The duty to make the answer; undefined if the request ends here. */
  async #recall(
    { tenantId }: Caller,
    name: string,
    requestId: string,
  ): Promise<InFlightEntry | undefined> {
    const claim = { tenantId, key: name, fingerprint: 'f', requestId };
    try {
      const recalled = await this.#idempotency.lookUp(claim, hasLeft, ({ text }) => text);
      if ('inFlight' in recalled) return recalled.inFlight;
      if (!this.dead) this.replayed.push({ name, maker: recalled.found });
    } catch {
      // Another request is making the answer, or the store is away.
    }
    return undefined;
  }

  async finish(position: number, charge: (held: number) => number, isLeft = false): Promise<void> {
    const [ending] = this.open.splice(position, 1);
    if (!ending) return;
    const { request, hold, caller, duty } = ending;
    if (isLeft) {
      request.name = null;
      await duty?.release();
    }
    const asked = charge(hold.credits);
    request.held = hold.credits;
    request.asked = asked;
    const charged = await hold.settle(asked);
    request.keyCharge = charged.key;
    const { createdAt } = request;
    const settlement: Settlement = {
      ...settlementOf(request.id, caller, charged.wallet, { cancelled: isLeft, createdAt }),
      writtenOff: asked - charged.wallet,
      keyAccount: hold.keyAccount,
      keyCharge: charged.key,
    };
    if (this.dead) return;
    try {
      if (duty && !isLeft) await this.#answer(duty, settlement);
      else await this.#keep(settlement);
    } catch {
      return;
    }
    request.seen = !this.dead;
  }

  #answer(duty: InFlightEntry, settlement: Settlement): Promise<void> {
    const { requestId } = settlement.record;
    const made = { dialect: '', form: 'whole', model: '', provider: '' } as const;
    return duty.finish(
      { ...made, text: requestId },
      {
        saveSettlement: () => this.#keep(settlement),
        saveWithAnswer: (answer) => this.#keepWith(answer, settlement),
      },
    );
  }

  async #keepWith(answer: IdempotentAnswer, settlement: Settlement): Promise<AnswerWriteResult> {
    const how = await this.#answers.book(answer, toSettlementEntry(settlement));
    if (this.dead) throw new Error('Nobody is there any more.');
    if (how === 'unwritten') await this.#keep({ ...settlement, claim: answer.claim });
    if (how === 'taken_over') {
      this.wallets.cancelCharges(chargesOf(settlement));
      const forgiven = withoutCharge(settlement, { error: 'invalid_request_error', note: null });
      this.#drain.add(toSettlementEntry(forgiven));
    }
    return how;
  }

  async #keep(settlement: Settlement): Promise<void> {
    const slip = toSettlementEntry(settlement);
    await this.#journal.settled(slip);
    this.#drain.add(slip);
  }

  /** Renews this process's claims, and tells the store again what it did not take before. */
  async tendClaims(): Promise<void> {
    for (const { run } of this.#idempotency.periodicTasks()) await run();
  }

  async renew(): Promise<void> {
    const now = this.#now();
    await this.wallets.renew();
    this.renewedAt = now;
  }

  flush(): Promise<void> {
    return this.#drain.flush();
  }

  get processId(): string {
    return this.#processId;
  }

  /** Ends the process as SIGKILL would: memory is lost, the store and the journal stay. */
  async crash(now: number): Promise<void> {
    this.dead = true;
    // A line being written is on disk afterwards; otherwise the client did not see the end.
    await new Promise((resolve) => setImmediate(resolve));
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
    const fault = this.dead ? 'away' : this.#faults.get(name);
    this.#faults.delete(name);
    if (fault === 'away') throw new Error('The store is away.');
    if (fault?.startsWith('slow')) await Bun.sleep(lateMs);
    const answer = await act();
    if (fault?.startsWith('late')) await Bun.sleep(lateMs);
    if (fault?.endsWith('lost') || this.dead) throw new Error('The answer was lost.');
    return answer;
  }

  #faultyClaims(store: ClaimStore): ClaimStore {
    return {
      claim: (...words) => this.#call('claim', () => store.claim(...words)),
      extend: (...words) => this.#call('extend', () => store.extend(...words)),
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
      commitWithAnswers: (...words) =>
        call('commitWithAnswers', () => store.commitWithAnswers(...words)),
      // Without this, the drain of a dead process would retry for ever.
      commit: (batch) =>
        this.dead ? Promise.resolve([]) : call('commit', () => store.commit(batch)),
    };
  }
}
