/**
 * Several processes on one store, doing at random what processes do with money, crashes included.
 * The test keeps a book of its own. A failure prints the seed and the shortest story that fails.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { idempotencyLeaseMs, idempotencyTtlMs } from '../../src/core/bounds.ts';
import type { Caller } from '../../src/core/caller.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { type EmptyDatabase, engines, makeTenant } from '../contracts/engines.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { newFolder } from '../support/gateway.ts';
import { callerOf } from '../support/money/settlements.ts';
import {
  type Fault,
  type ReplayedAnswer,
  SimProcess,
  type SimRequest,
  type StoreCall,
} from '../support/money/sim-process.ts';

const processes = 3;
const minute = 60_000;

type Step =
  | { do: 'begin'; at: number; key: number; wanted: number; least: number; name: string | null }
  | { do: 'extend'; at: number; which: number; credits: number }
  | { do: 'reach'; at: number; which: number; enough: number }
  | { do: 'finish' | 'leave'; at: number; which: number; percent: number }
  | { do: 'grant'; amount: number }
  | { do: 'limit'; credits: number }
  | { do: 'fault'; at: number; call: StoreCall; fault: Fault }
  | { do: 'crash' | 'flush' | 'renew' | 'recalls' | 'tend claims'; at: number }
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
const faults = ['away', 'lost', 'late', 'late and lost', 'slow', 'slow and lost'] as const;
const at = fc.nat(processes - 1);
const which = fc.nat(5);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('begin' as const),
      at,
      key: fc.nat(2),
      wanted: fc.integer({ min: 0, max: 120 }),
      least: fc.integer({ min: 0, max: 60 }),
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
        ...(['tend claims', 'tend claims'] as const),
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

const awaited: ReadonlySet<Step['do']> = new Set([
  'settle down',
  'compare',
  'crash',
  'grant',
  'idle',
]);

/** One run: the processes, the tenant they serve, and what the test knows about it. */
class World {
  readonly tenantId: string;
  readonly #store: Store;
  readonly #folder = newFolder();
  readonly #requests: SimRequest[] = [];
  readonly #givenAgain: ReplayedAnswer[] = [];
  #processes: SimProcess[];
  #running: Promise<unknown>[] = [];
  #granted = 0;
  #limit = 100;
  #limitMax = 100;
  #now: number;
  /** Somebody slept for longer than leases last: then charges may have to be written off. */
  #overslept = false;
  /** So much time has gone by that a key may have been given to another. */
  #keysMayEnd = false;
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
    for (const one of steps) {
      const started = this.#perform(one);
      // Nearly everything goes on while the next steps begin: that is what interleaves them.
      if (awaited.has(one.do)) await started;
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

  async #perform(one: Step): Promise<unknown> {
    switch (one.do) {
      case 'begin': {
        const order = { requested: one.wanted, minimum: Math.min(one.wanted, one.least) };
        return this.#at(one.at).begin(this.#caller(one.key), order, one.name);
      }
      case 'extend':
        return this.#at(one.at).extend(one.which, one.credits, one.credits >> 1);
      case 'reach':
        return this.#at(one.at).open[one.which]?.hold.maxCredits(one.enough);
      case 'extend and finish':
        return this.#extendAndFinish(one);
      case 'idle':
        return this.#idle(one.at, one.fault);
      case 'finish':
      case 'leave': {
        const share = (held: number) => Math.ceil((held * one.percent) / 100);
        return this.#at(one.at).finish(one.which, share, one.do === 'leave');
      }
      case 'tend claims':
        return this.#at(one.at)
          .tendClaims()
          .catch(() => undefined);
      case 'grant':
        return this.#grant(one.amount);
      case 'limit':
        this.#limit = one.credits;
        this.#limitMax = Math.max(this.#limitMax, this.#limit);
        return undefined;
      case 'fault':
        return this.#at(one.at).fail(one.call, one.fault);
      case 'crash':
        return this.#crash(one.at);
      case 'flush':
        return this.#at(one.at)
          .flush()
          .catch(() => undefined);
      case 'renew':
        return this.#at(one.at)
          .wallets.renew()
          .catch(() => undefined);
      case 'recalls':
        return this.#at(one.at)
          .wallets.answerRecalls()
          .catch(() => undefined);
      case 'wait':
        this.#now += one.ms;
        this.#noticeOversleeping();
        return undefined;
      case 'settle down':
        return Promise.all(this.#running.splice(0));
      case 'compare':
        return this.#compare();
    }
  }

  /** The client leaves while more is being set aside for it. */
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

  /** Whatever a process does not use, it gives back after a while; here that may go wrong. */
  async #idle(position: number, fault: Fault | null): Promise<void> {
    const process = this.#at(position);
    await Promise.all(this.#running.splice(0));
    await process.flush().catch(() => undefined);
    this.#now += 6_000;
    this.#noticeOversleeping();
    if (fault) process.fail('returnCredits', fault);
    await process.renew().catch(() => undefined);
    if (process.open.length > 0) return;
    await process.rest();
    // The first renewal ends any doubt, which is a use; after the second one nothing is left.
    for (let round = 0; round < 2; round++) {
      this.#now += 6_000;
      this.#noticeOversleeping();
      await process.renew();
    }
    expect(process.wallets.totals().leasedCredits).toBe(0);
    await this.#compareLeases(process);
  }

  #noticeOversleeping(): void {
    this.#keysMayEnd ||= this.#now >= this.#startedAt + idempotencyLeaseMs;
    this.#overslept ||= this.#processes.some(({ renewedAt }) => this.#now > renewedAt + minute);
  }

  async #grant(amount: number): Promise<void> {
    const change = { tenantId: this.tenantId, amount, note: '', idempotencyKey: null };
    const outcome = await this.#store.creditStore.change({ ...change, now: this.#now });
    if (outcome.kind === 'booked') this.#granted += amount;
  }

  async #crash(position: number): Promise<void> {
    const dying = this.#at(position);
    await dying.crash(this.#now);
    this.#requests.push(...dying.requests);
    this.#givenAgain.push(...dying.replayed);
    this.#processes[position] = this.#start();
  }

  /** Once everything has come to rest, every process must believe what the store knows. */
  async #compare(): Promise<void> {
    await Promise.all(this.#running.splice(0));
    for (const process of this.#processes) await process.rest();
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
      // The wallet and the key's limit hold alike.
      heldCredits: ofKeys.reduce((sum, { hold }) => sum + hold.credits, inUse),
      owedCredits: 0,
    });
    const wallet = leases.find(({ owner }) => owner === `tenant:${this.tenantId}`)?.credits ?? 0;
    // More may be held than is leased after a lost lease, or when a charge beyond its hold took
    // from it; then nothing may be to spare.
    expect(process.wallets.spare(this.tenantId)).toBe(Math.max(0, wallet - inUse));
  }

  /** In one statement, so that no step can fall in between. */
  async #checkAccounts(): Promise<void> {
    const { rows } = await sql<{ owner: string; balance: number; leased: number; sum: number }>`
      select owner, balance, leased, (
        select coalesce(sum(credits), 0) from leases where account_id = accounts.id
      ) as sum
      from accounts where tenant_id = ${this.tenantId}
    `.execute(this.#store.database.read);
    for (const { owner, balance, leased, sum } of rows) {
      expect({ owner, leased, isSound: balance >= 0 && leased >= 0 && leased <= balance }).toEqual({
        owner,
        leased: sum,
        isSound: true,
      });
    }
  }

  async #end(): Promise<void> {
    await this.#compare();
    for (const process of this.#processes) {
      // The lease may be stale by now; a renewal makes the process fit to work again.
      await process.renew();
      while (process.open.length > 0) await process.finish(0, (held) => held);
      await process.flush();
      await process.tendClaims();
      this.#requests.push(...process.requests);
      this.#givenAgain.push(...process.replayed);
    }
    // A lease that was on its way when its process died comes back by itself in two minutes.
    for (let round = 0; round < 3; round++) {
      this.#now += minute;
      for (const process of this.#processes) await process.renew();
    }
    await this.#checkBooks();
    await this.#checkKeys();
    for (const process of this.#processes) await process.stop();
  }

  async #checkBooks(): Promise<void> {
    const { read } = this.#store.database;
    const mine = (table: 'accounts' | 'request_log') =>
      read.selectFrom(table).where('tenant_id', '=', this.tenantId);
    const accounts = await mine('accounts')
      .select(['owner', 'leased', 'balance', 'spent'])
      .execute();
    // Nobody runs anything: whatever is still on lease is lost to everybody.
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
    for (const { id, asked, held, seen, keyAccount, keyCharge } of this.#requests) {
      const row = byId.get(id.replaceAll('-', ''));
      if (!row) throw new Error(`Request ${id} was sent and is not in the log.`);
      charged += row.model_charge;
      if (seen) expect(row.status).toBe('success');
      const isFree = row.status === 'error' || this.#isSecond(row);
      if (isFree) expect(row.model_charge + row.written_off).toBe(0);
      else expect(row.model_charge + row.written_off).toBe(asked ?? Number.NaN);
      if (isFree || asked === null) continue;
      writtenOff += row.written_off;
      beyondHolds += Math.max(0, asked - held);
      if (keyAccount === null) continue;
      const key = keys.get(keyAccount) ?? { charged: 0, beyondHolds: 0 };
      // What nobody paid counts against no limit.
      key.charged += Math.min(keyCharge, row.model_charge);
      key.beyondHolds += Math.max(0, asked - held);
      keys.set(keyAccount, key);
    }
    // Credits that were held are there in the end, whatever the store did meanwhile.
    if (!this.#overslept) expect(writtenOff).toBeLessThanOrEqual(beyondHolds);
    expect(rows.length).toBe(this.#requests.length);
    const wallet = accounts.find(({ owner }) => owner === `tenant:${this.tenantId}`);
    expect(wallet?.balance).toBe(this.#granted - charged);
    for (const { owner, spent } of accounts) {
      if (owner === wallet?.owner) continue;
      const key = keys.get(owner) ?? { charged: 0, beyondHolds: 0 };
      expect(spent).toBeLessThanOrEqual(Math.min(key.charged, this.#limitMax));
      if (this.#overslept) continue;
      expect(spent).toBeGreaterThanOrEqual(key.charged - key.beyondHolds);
    }
  }

  /** Two gave an answer to one key, since the first was thought dead: one of them is charged. */
  #isSecond({ details }: { readonly details: string }): boolean {
    return this.#keysMayEnd && details.includes('Another answer to its Idempotency-Key');
  }

  /** What a key gives again was paid for; and it is made, and known, once. */
  async #checkKeys(): Promise<void> {
    const { read } = this.#store.database;
    const paid = new Set<string>();
    const charged: string[] = [];
    for (const { id, asked, name } of this.#requests) {
      const row = await read
        .selectFrom('request_log')
        .select(['status', 'model_charge', 'written_off', 'details'])
        .where('request_id', '=', Buffer.from(id.replaceAll('-', ''), 'hex'))
        .executeTakeFirst();
      if (row?.status !== 'success') continue;
      const isWhole = row.model_charge + row.written_off === asked;
      if (isWhole || this.#isSecond(row)) paid.add(id);
      if (row.model_charge > 0 && name !== null) charged.push(name);
    }
    // After a day a key is forgotten, and may be used again.
    const isForgotten = this.#now >= this.#startedAt + idempotencyTtlMs;
    if (!isForgotten) expect(charged).toEqual([...new Set(charged)]);
    expect(this.#givenAgain.filter(({ maker }) => !paid.has(maker))).toEqual([]);
    if (this.#keysMayEnd) return;
    const ends = this.#requests.filter(({ name, seen }) => name !== null && seen);
    const names = ends.map(({ name }) => name);
    expect(names.length).toBe(new Set(names).size);
    const makers = new Map(ends.map(({ name, id }) => [name, id]));
    for (const { name, maker } of this.#givenAgain)
      expect([maker, undefined]).toContain(makers.get(name));
    const living = new Set(this.#processes.flatMap(({ requests }) => requests));
    const lasting = ends.filter((end) => living.has(end)).map(({ id }) => id);
    let unknown: readonly string[] = lasting;
    // The store may take longer than a process waits for it: then it is told again.
    for (let round = 0; round < 100 && unknown.length > 0; round++) {
      for (const process of this.#processes) await process.tendClaims();
      const kept = await read
        .selectFrom('idempotency_claims')
        .select('request_id')
        .where('tenant_id', '=', this.tenantId)
        .where('is_done', '=', 1)
        .execute();
      const known = new Set(kept.map(({ request_id }) => request_id));
      unknown = lasting.filter((id) => !known.has(id));
    }
    expect(unknown).toEqual([]);
  }
}

const runs: Readonly<Record<string, number>> = { SQLite: 60, Postgres: 25 };

describe.each(engines.map((engine) => ({ ...engine })))('on $name', ({ name, empty }) => {
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

  test('no order of requests, crashes and lost answers makes or loses a credit', async () => {
    const property = fc.asyncProperty(
      fc.array(step, { minLength: 10, maxLength: 70, size: 'max' }),
      async (steps) => {
        const tenant = makeTenant();
        await store.directory.addTenant(tenant);
        const world = new World(store, tenant.id, clock);
        await world.play(steps);
        clock = world.now + 24 * 60 * minute;
      },
    );
    await fc.assert(property, { numRuns: runs[name] ?? 1, endOnFailure: true });
    expect(await discrepancies(store.database)).toEqual([]);
  }, 360_000);
});
