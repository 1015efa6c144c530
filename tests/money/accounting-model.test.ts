/**
 * Property test of holds, leases, and settlements. Several processes on one store take random
 * steps, including crashes, and the test compares the ledger with its own records. A failure
 * prints the seed and the shortest failing sequence of steps.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import { idempotencyLeaseMs, idempotencyTtlMs } from '../../src/core/bounds.ts';
import type { Caller } from '../../src/core/caller.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { type EmptyDatabase, engines, makeTenant } from '../contracts/engines.ts';
import { newFolder } from '../support/gateway.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { callerOf } from '../support/money/settlements.ts';
import {
  type Fault,
  type ReplayedAnswer,
  SimProcess,
  type SimRequest,
  type StoreCall,
} from '../support/money/sim-process.ts';
import { fc } from '../support/random.ts';

const processes = 3;
const minute = 60_000;

type Step =
  | {
      do: 'begin';
      at: number;
      key: number;
      requested: number;
      minimum: number;
      name: string | null;
    }
  | { do: 'extend'; at: number; which: number; credits: number }
  | { do: 'reach'; at: number; which: number; enough: number }
  | { do: 'finish' | 'leave'; at: number; which: number; percent: number }
  | { do: 'grant'; amount: number }
  | { do: 'limit'; credits: number }
  | { do: 'fault'; at: number; call: StoreCall; fault: Fault }
  | { do: 'crash' | 'flush' | 'renew' | 'recalls' | 'run claim tasks'; at: number }
  | { do: 'extend and finish'; at: number; which: number; credits: number }
  | { do: 'idle'; at: number; fault: Fault | null }
  | { do: 'wait'; ms: number }
  | { do: 'settle down' | 'compare' };

const faultyCalls: readonly StoreCall[] = [
  ...([
    'lease',
    'returnCredits',
    'renew',
    'recall',
    'commit',
    'commit',
    'commitWithAnswers',
  ] as const),
  ...(['commitWithAnswers', 'claim', 'finish', 'release'] as const),
];
const faults = ['unreachable', 'lost', 'late', 'late and lost', 'slow', 'slow and lost'] as const;
const at = fc.nat(processes - 1);
const which = fc.nat(5);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('begin' as const),
      at,
      key: fc.nat(2),
      requested: fc.integer({ min: 0, max: 120 }),
      minimum: fc.integer({ min: 0, max: 60 }),
      name: fc.constantFrom(null, 'order-1', 'order-2', 'order-3'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('extend' as const),
      at,
      which,
      credits: fc.integer({ min: 1, max: 40 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('reach' as const),
      at,
      which,
      enough: fc.constantFrom(1, 100, 1_000),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('finish' as const, 'finish', 'finish', 'leave'),
      at,
      which,
      percent: fc.constantFrom(0, 40, 100, 100, 130, 400),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('grant' as const),
      amount: fc.integer({ min: -80, max: 120 }).filter((amount) => amount !== 0),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('limit' as const), credits: fc.nat(150) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('fault' as const),
      at,
      call: fc.constantFrom(...faultyCalls),
      fault: fc.constantFrom(...faults),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        ...(['crash', 'flush', 'flush', 'renew', 'recalls', 'recalls'] as const),
        ...(['run claim tasks', 'run claim tasks'] as const),
      ),
      at,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('extend and finish' as const),
      at,
      which,
      credits: fc.integer({ min: 40, max: 250 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('idle' as const),
      at,
      fault: fc.constantFrom<Fault | null>(...faults, null),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(6_000, minute / 2, 3 * minute, 26 * 60 * minute),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('settle down' as const, 'compare') }) },
);

/** Steps that complete before the next one starts. All others overlap. */
const awaitedSteps: ReadonlySet<Step['do']> = new Set([
  'settle down',
  'compare',
  'crash',
  'grant',
  'idle',
]);

/** One run of random steps: the processes, their tenant, and the test's own records. */
class RandomRun {
  readonly tenantId: string;
  readonly #store: Store;
  readonly #folder = newFolder();
  readonly #requests: SimRequest[] = [];
  readonly #replayed: ReplayedAnswer[] = [];
  #processes: SimProcess[];
  #running: Promise<unknown>[] = [];
  #granted = 0;
  #limit = 100;
  #limitMax = 100;
  #now: number;
  /** True if a process missed its renewals, so that charges may have to be written off. */
  #leaseMayHaveExpired = false;
  /** True if a claim of an idempotency key may have expired and passed to another request. */
  #claimMayHaveExpired = false;
  readonly #startedAt: number;

  constructor(store: Store, tenantId: string, now: number) {
    this.#store = store;
    this.tenantId = tenantId;
    this.#now = now;
    this.#startedAt = now;
    this.#processes = Array.from({ length: processes }, () => this.#start());
  }

  get now(): number {
    return this.#now;
  }

  async play(steps: readonly Step[]): Promise<void> {
    await this.#grant(300);
    for (const step of steps) {
      const started = this.#perform(step);
      // Don't wait for most steps, so that they overlap with the next ones.
      if (awaitedSteps.has(step.do)) await started;
      else this.#running.push(started);
      await Bun.sleep(0);
      await this.#checkAccounts();
    }
    await this.#end();
  }

  #start(): SimProcess {
    const { ledger, claims } = this.#store;
    return new SimProcess(ledger, claims, this.#folder, () => this.#now);
  }

  #at(position: number): SimProcess {
    const found = this.#processes[position];
    if (!found) throw new Error(`There is no process ${position}.`);
    return found;
  }

  #caller(key: number): Caller {
    if (key === 0) return callerOf(this.tenantId);
    const limitReset = key === 1 ? null : ('daily' as const);
    const keyId = `key_${key}_${this.tenantId}`;
    return callerOf(this.tenantId, { keyId, limitCredits: this.#limit, limitReset });
  }

  async #perform(step: Step): Promise<unknown> {
    switch (step.do) {
      case 'begin': {
        const order = {
          requested: step.requested,
          minimum: Math.min(step.requested, step.minimum),
        };
        return this.#at(step.at).begin(this.#caller(step.key), order, step.name);
      }
      case 'extend':
        return this.#at(step.at).extend(step.which, step.credits, step.credits >> 1);
      case 'reach':
        return this.#at(step.at).open[step.which]?.hold.maxCredits(step.enough);
      case 'extend and finish':
        return this.#extendAndFinish(step);
      case 'idle':
        return this.#idle(step.at, step.fault);
      case 'finish':
      case 'leave': {
        const charge = (held: number) => Math.ceil((held * step.percent) / 100);
        return this.#at(step.at).finish(step.which, charge, step.do === 'leave');
      }
      case 'run claim tasks':
        return this.#at(step.at)
          .runClaimTasks()
          .catch(() => undefined);
      case 'grant':
        return this.#grant(step.amount);
      case 'limit':
        this.#limit = step.credits;
        this.#limitMax = Math.max(this.#limitMax, this.#limit);
        return undefined;
      case 'fault':
        return this.#at(step.at).fail(step.call, step.fault);
      case 'crash':
        return this.#crash(step.at);
      case 'flush':
        return this.#at(step.at)
          .flush()
          .catch(() => undefined);
      case 'renew':
        return this.#at(step.at)
          .wallets.renew()
          .catch(() => undefined);
      case 'recalls':
        return this.#at(step.at)
          .wallets.answerRecalls()
          .catch(() => undefined);
      case 'wait':
        this.#now += step.ms;
        this.#updateExpectations();
        return undefined;
      case 'settle down':
        return Promise.all(this.#running.splice(0));
      case 'compare':
        return this.#compare();
    }
  }

  /** Finishes a request while its hold is being extended. */
  async #extendAndFinish({
    at,
    which,
    credits,
  }: Extract<Step, { which: number; credits: number }>) {
    const process = this.#at(at);
    const extending = process.extend(which, credits);
    await process.finish(which, (held) => held);
    await extending;
  }

  /** Checks that an idle process returns its lease, even if a return fails at first. */
  async #idle(position: number, fault: Fault | null): Promise<void> {
    const process = this.#at(position);
    await Promise.all(this.#running.splice(0));
    await process.flush().catch(() => undefined);
    this.#now += 6_000;
    this.#updateExpectations();
    if (fault) process.fail('returnCredits', fault);
    await process.renew().catch(() => undefined);
    if (process.open.length > 0) return;
    await process.waitForCalls();
    // The first renewal settles an uncertain lease, which counts as a use. The second returns it.
    for (let round = 0; round < 2; round++) {
      this.#now += 6_000;
      this.#updateExpectations();
      await process.renew();
    }
    expect(process.wallets.totals().leasedCredits).toBe(0);
    await this.#compareLeases(process);
  }

  #updateExpectations(): void {
    this.#claimMayHaveExpired ||= this.#now >= this.#startedAt + idempotencyLeaseMs;
    this.#leaseMayHaveExpired ||= this.#processes.some(
      ({ renewedAt }) => this.#now > renewedAt + minute,
    );
  }

  async #grant(amount: number): Promise<void> {
    const change = { tenantId: this.tenantId, amount, note: '', idempotencyKey: null };
    const outcome = await this.#store.creditStore.change({ ...change, now: this.#now });
    if (outcome.kind === 'booked') this.#granted += amount;
  }

  async #crash(position: number): Promise<void> {
    const crashed = this.#at(position);
    await crashed.crash(this.#now);
    this.#requests.push(...crashed.requests);
    this.#replayed.push(...crashed.replayed);
    this.#processes[position] = this.#start();
  }

  /** Checks that every idle process agrees with the store about its leases. */
  async #compare(): Promise<void> {
    await Promise.all(this.#running.splice(0));
    for (const process of this.#processes) await process.waitForCalls();
    for (const process of this.#processes) await process.renew();
    for (const process of this.#processes) await this.#compareLeases(process);
  }

  async #compareLeases(process: SimProcess): Promise<void> {
    const leases = await this.#store.database.read
      .selectFrom('leases')
      .innerJoin('accounts', 'accounts.id', 'leases.account_id')
      .select(['owner', 'credits'])
      .where('process_id', '=', process.processId)
      .where('credits', '>', 0)
      .execute();
    const inUse = process.open.reduce((sum, { hold }) => sum + hold.credits, 0);
    const ofKeys = process.open.filter(({ hold }) => hold.keyAccount !== null);
    expect(process.wallets.totals()).toEqual({
      leases: leases.length,
      leasedCredits: leases.reduce((sum, { credits }) => sum + credits, 0),
      // A hold counts both in the wallet and in the key's account.
      heldCredits: ofKeys.reduce((sum, { hold }) => sum + hold.credits, inUse),
      unbookedCredits: 0,
    });
    expect(process.wallets.heldCredits(this.tenantId)).toBe(inUse);
  }

  /** Reads accounts and leases in one statement, so that no step runs in between. */
  async #checkAccounts(): Promise<void> {
    const { rows } = await sql<{ owner: string; balance: number; leased: number; sum: number }>`
      select owner, balance, leased, (
        select coalesce(sum(credits), 0) from leases where account_id = accounts.id
      ) as sum
      from accounts where tenant_id = ${this.tenantId}
    `.execute(this.#store.database.read);
    for (const { owner, balance, leased, sum } of rows) {
      expect({
        owner,
        leased,
        isConsistent: balance >= 0 && leased >= 0 && leased <= balance,
      }).toEqual({
        owner,
        leased: sum,
        isConsistent: true,
      });
    }
  }

  async #end(): Promise<void> {
    await this.#compare();
    for (const process of this.#processes) {
      // The lease may have expired. After a renewal, the process can lease again.
      await process.renew();
      while (process.open.length > 0) await process.finish(0, (held) => held);
      await process.flush();
      await process.runClaimTasks();
      this.#requests.push(...process.requests);
      this.#replayed.push(...process.replayed);
    }
    // A lease that was in transit when its process crashed expires after 2 minutes.
    for (let round = 0; round < 3; round++) {
      this.#now += minute;
      for (const process of this.#processes) await process.renew();
    }
    await this.#checkLedger();
    await this.#checkIdempotency();
    for (const process of this.#processes) await process.stop();
  }

  async #checkLedger(): Promise<void> {
    const { read } = this.#store.database;
    const ofTenant = (table: 'accounts' | 'request_log') =>
      read.selectFrom(table).where('tenant_id', '=', this.tenantId);
    const accounts = await ofTenant('accounts')
      .select(['owner', 'leased', 'balance', 'spent'])
      .execute();
    // No request is running, so credits that are still leased would be lost.
    expect(accounts.filter(({ leased }) => leased !== 0)).toEqual([]);

    const rows = await read
      .selectFrom('request_log')
      .selectAll()
      .where('tenant_id', '=', this.tenantId)
      .execute();
    const byId = new Map(rows.map((row) => [Buffer.from(row.request_id).toString('hex'), row]));
    expect(rows.length).toBe(byId.size);
    let [charged, writtenOff, beyondHolds] = [0, 0, 0];
    const keys = new Map<string, { charged: number; beyondHolds: number }>();
    for (const { id, requestedCharge, held, clientSawEnd, keyAccount, keyCharge } of this
      .#requests) {
      const row = byId.get(id.replaceAll('-', ''));
      if (!row) throw new Error(`Request ${id} was sent but isn't in the log.`);
      charged += row.model_charge;
      if (clientSawEnd) expect(row.status).toBe('success');
      const isFree = row.status === 'error' || this.#isSecondAnswer(row);
      if (isFree) expect(row.model_charge + row.written_off).toBe(0);
      else expect(row.model_charge + row.written_off).toBe(requestedCharge ?? Number.NaN);
      if (isFree || requestedCharge === null) continue;
      writtenOff += row.written_off;
      beyondHolds += Math.max(0, requestedCharge - held);
      if (keyAccount === null) continue;
      const key = keys.get(keyAccount) ?? { charged: 0, beyondHolds: 0 };
      // Credits that were written off don't count against a limit.
      key.charged += Math.min(keyCharge, row.model_charge);
      key.beyondHolds += Math.max(0, requestedCharge - held);
      keys.set(keyAccount, key);
    }
    // Held credits are available at settlement, whatever happened in the store meanwhile.
    if (!this.#leaseMayHaveExpired) expect(writtenOff).toBeLessThanOrEqual(beyondHolds);
    expect(rows.length).toBe(this.#requests.length);
    const wallet = accounts.find(({ owner }) => owner === `tenant:${this.tenantId}`);
    expect(wallet?.balance).toBe(this.#granted - charged);
    for (const { owner, spent } of accounts) {
      if (owner === wallet?.owner) continue;
      const key = keys.get(owner) ?? { charged: 0, beyondHolds: 0 };
      expect(spent).toBeLessThanOrEqual(Math.min(key.charged, this.#limitMax));
      if (this.#leaseMayHaveExpired) continue;
      expect(spent).toBeGreaterThanOrEqual(key.charged - key.beyondHolds);
    }
  }

  /** Returns true for the second answer with the same idempotency key, which isn't charged. */
  #isSecondAnswer({ details }: { readonly details: string }): boolean {
    return (
      this.#claimMayHaveExpired && details.includes('Another answer with the same Idempotency-Key')
    );
  }

  /** Checks that replayed answers were charged, and that each key has one stored answer. */
  async #checkIdempotency(): Promise<void> {
    const { read } = this.#store.database;
    const paid = new Set<string>();
    const charged: string[] = [];
    for (const { id, requestedCharge, idempotencyKey } of this.#requests) {
      const row = await read
        .selectFrom('request_log')
        .select(['status', 'model_charge', 'written_off', 'details'])
        .where('request_id', '=', Buffer.from(id.replaceAll('-', ''), 'hex'))
        .executeTakeFirst();
      if (row?.status !== 'success') continue;
      const isCharged = row.model_charge + row.written_off === requestedCharge;
      if (isCharged || this.#isSecondAnswer(row)) paid.add(id);
      if (row.model_charge > 0 && idempotencyKey !== null) charged.push(idempotencyKey);
    }
    // After a day, a key expires and may be used again.
    const isExpired = this.#now >= this.#startedAt + idempotencyTtlMs;
    if (!isExpired) expect(charged).toEqual([...new Set(charged)]);
    expect(this.#replayed.filter(({ requestId }) => !paid.has(requestId))).toEqual([]);
    if (this.#claimMayHaveExpired) return;
    const completed = this.#requests.filter(
      ({ idempotencyKey, clientSawEnd }) => idempotencyKey !== null && clientSawEnd,
    );
    const names = completed.map(({ idempotencyKey }) => idempotencyKey);
    expect(names.length).toBe(new Set(names).size);
    const makers = new Map(completed.map(({ idempotencyKey, id }) => [idempotencyKey, id]));
    for (const { idempotencyKey, requestId } of this.#replayed)
      expect([requestId, undefined]).toContain(makers.get(idempotencyKey));
    const survivors = new Set(this.#processes.flatMap(({ requests }) => requests));
    const surviving = completed.filter((request) => survivors.has(request)).map(({ id }) => id);
    let unknown: readonly string[] = surviving;
    // The store may take longer than a process waits for it, so retry.
    for (let round = 0; round < 100 && unknown.length > 0; round++) {
      for (const process of this.#processes) await process.runClaimTasks();
      const stored = await read
        .selectFrom('idempotency_claims')
        .select('request_id')
        .where('tenant_id', '=', this.tenantId)
        .where('is_done', '=', 1)
        .execute();
      const known = new Set(stored.map(({ request_id }) => request_id));
      unknown = surviving.filter((id) => !known.has(id));
    }
    expect(unknown).toEqual([]);
  }
}

const runs: Readonly<Record<string, number>> = { SQLite: 60, Postgres: 25 };

describe.each(engines.map((engine) => ({ ...engine })))(
  'accounting on $name',
  ({ name, empty }) => {
    let database: EmptyDatabase;
    let store: Store;
    let clock = 1_800_000_000_000;

    beforeAll(async () => {
      database = await empty();
      store = await openStore(database.url);
    }, 180_000);

    afterAll(async () => {
      await store.database.close();
      database.remove();
    });

    test('neither gains nor loses credits, whatever the order of requests, crashes, and faults', async () => {
      const property = fc.asyncProperty(
        fc.array(step, { minLength: 10, maxLength: 70, size: 'max' }),
        async (steps) => {
          const tenant = makeTenant();
          await store.directory.addTenant(tenant);
          const world = new RandomRun(store, tenant.id, clock);
          await world.play(steps);
          clock = world.now + 24 * 60 * minute;
        },
      );
      await fc.assert(property, { numRuns: runs[name] ?? 1, endOnFailure: true });
      expect(await discrepancies(store.database)).toEqual([]);
    }, 360_000);
  },
);
