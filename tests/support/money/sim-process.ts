/**
 * A gateway's money without the gateway: wallets, journal and drain joined as `books.ts` joins
 * them, on a store that can be made to fail, with a clock that the test moves.
 */
import { join } from 'node:path';
import type { Caller } from '../../../src/core/caller.ts';
import { randomText } from '../../../src/core/ids.ts';
import { Drain } from '../../../src/ledger/drain.ts';
import type { Hold } from '../../../src/ledger/hold.ts';
import { Journal } from '../../../src/ledger/journal.ts';
import type { LedgerStore, Settlement } from '../../../src/ledger/ledger-store.ts';
import { replayJournals } from '../../../src/ledger/replay.ts';
import { slipOf } from '../../../src/ledger/slip.ts';
import { Wallets } from '../../../src/ledger/wallets.ts';
import { settlementOf } from './settlements.ts';

/**
 * `away`: nothing happens. `lost`: it happens, and the answer is lost on the way. `late`: the
 * answer comes behind others that were asked for later.
 */
export type Fault = 'away' | 'lost' | 'late';
export type StoreCall = keyof LedgerStore;

const lateMs = 12;

/** What the test itself writes down about a request, to compare the books with. */
export interface SimRequest {
  readonly id: string;
  readonly tenantId: string;
  /** What was asked to be charged in the end; null while it runs. */
  asked: number | null;
  /** The hold at its end. */
  held: number;
  /** The client saw its end, which was not before it was in the journal. */
  seen: boolean;
}

interface OpenRequest {
  readonly request: SimRequest;
  readonly hold: Hold;
  readonly caller: Caller;
}

export class SimProcess {
  readonly wallets: Wallets;
  readonly #drain: Drain;
  readonly #journal: Journal;
  readonly #root: string;
  readonly #processId: string;
  readonly #store: LedgerStore;
  readonly open: OpenRequest[] = [];
  readonly requests: SimRequest[] = [];
  readonly #now: () => number;
  renewedAt: number;
  dead = false;
  #isAway = false;
  readonly #faults = new Map<StoreCall, Fault>();

  constructor(store: LedgerStore, folder: string, now: () => number) {
    const processId = randomText(16);
    this.#processId = processId;
    this.#now = now;
    this.renewedAt = now();
    this.#store = store;
    this.#root = join(folder, processId);
    const faulty = this.#faulty(store);
    this.wallets = new Wallets(faulty, processId, now, () => Bun.sleep(1));
    this.#journal = new Journal(this.#root, processId, 'journal');
    this.#drain = new Drain({
      store: faulty,
      processId,
      onCommit: (booked, ids) => {
        this.wallets.booked(booked);
        this.#journal.drained(ids);
      },
      onFailure: () => undefined,
    });
  }

  /** The next call of this kind goes wrong in this way. */
  fail(call: StoreCall, fault: Fault): void {
    this.#faults.set(call, fault);
  }

  heal(): void {
    this.#faults.clear();
  }

  /** The credits that it believes to have on lease: what runs, and what it would still give. */
  async believes(caller: Caller): Promise<number> {
    const inUse = this.open.reduce((sum, { hold }) => sum + hold.credits, 0);
    this.#isAway = true;
    try {
      const spare = await this.wallets.hold(caller, { wanted: 1_000_000_000, least: 1 });
      await spare.settle(0);
      return inUse + spare.credits;
    } catch {
      return inUse;
    } finally {
      this.#isAway = false;
    }
  }

  /** Answers false when it was refused. */
  async begin(caller: Caller, wanted: number, least: number): Promise<boolean> {
    let hold: Hold;
    try {
      hold = await this.wallets.hold(caller, { wanted, least });
    } catch {
      return false;
    }
    if (this.dead) return false;
    const id = crypto.randomUUID();
    const request = { id, tenantId: caller.tenantId, asked: null, held: 0, seen: false };
    this.requests.push(request);
    const { record } = settlementOf(id, caller, 0);
    const { tenantId, keyId, operation, requestedModel, streamed, createdAt } = record;
    const call = { requestId: id, tenantId, keyId, operation, requestedModel, streamed, createdAt };
    await this.#journal.dispatched(call);
    this.open.push({ request, hold, caller });
    return true;
  }

  async finish(position: number, charge: (held: number) => number): Promise<void> {
    const [ending] = this.open.splice(position, 1);
    if (!ending) return;
    const { request, hold, caller } = ending;
    const asked = charge(hold.credits);
    request.held = hold.credits;
    request.asked = asked;
    const charged = await hold.settle(asked);
    const settlement: Settlement = {
      ...settlementOf(request.id, caller, charged.wallet),
      writtenOff: asked - charged.wallet,
      keyAccount: hold.keyAccount,
      keyCharge: charged.key,
    };
    if (this.dead) return;
    const slip = slipOf(settlement);
    await this.#journal.settled(slip);
    this.#drain.add(slip);
    request.seen = !this.dead;
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

  /** Ends it as SIGKILL would: what is in memory is gone, the store and the journal stay. */
  async crash(now: number): Promise<void> {
    this.dead = true;
    // A line that was on its way to the disk is there, or its client never saw the end.
    await new Promise((resolve) => setImmediate(resolve));
    await replayJournals(this.#root, this.#store, now);
  }

  async stop(): Promise<void> {
    await this.flush();
    await this.wallets.stop();
    this.#journal.close();
  }

  #faulty(store: LedgerStore): LedgerStore {
    const call = async <T>(name: StoreCall, act: () => Promise<T>): Promise<T> => {
      const fault = this.dead || this.#isAway ? 'away' : this.#faults.get(name);
      this.#faults.delete(name);
      if (fault === 'away') throw new Error('The store is away.');
      const answer = await act();
      if (fault === 'late') await Bun.sleep(lateMs);
      if (fault === 'lost' || this.dead) throw new Error('The answer was lost.');
      return answer;
    };
    return {
      lease: (order) => call('lease', () => store.lease(order)),
      giveBack: (back) => call('giveBack', () => store.giveBack(back)),
      renew: (id, until) => call('renew', () => store.renew(id, until)),
      expire: (at, dead) => call('expire', () => store.expire(at, dead)),
      recall: (owner, id) => call('recall', () => store.recall(owner, id)),
      recalled: (id) => call('recalled', () => store.recalled(id)),
      commitWith: (batch, answers) => call('commit', () => store.commitWith(batch, answers)),
      // A dead drain would try for ever.
      commit: (batch) =>
        this.dead ? Promise.resolve([]) : call('commit', () => store.commit(batch)),
    };
  }
}
