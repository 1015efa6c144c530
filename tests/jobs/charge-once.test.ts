/** What jobs rely on: the books take a request id once, whichever process brings it how often. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newRequestId } from '../../src/core/ids.ts';
import { GatewayJobRunner } from '../../src/jobs/gateway-runner.ts';
import { Accounting } from '../../src/money/accounting.ts';
import type { LedgerStore } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import type { Store } from '../../src/store/open.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { addCustomer, makeRecord } from '../contracts/bookings.ts';
import { engines, openTwice, type TwoStores } from '../contracts/engines.ts';
import { discrepancies } from '../support/book-check.ts';
import { callerOf } from '../support/caller.ts';

describe.each([...engines])('a piece that is charged twice, on $name', ({ empty }) => {
  let stores: TwoStores;
  let folder: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    folder = mkdtempSync(join(tmpdir(), 'tollgate-once-'));
  }, 120_000);

  afterAll(async () => {
    await stores.close();
    rmSync(folder, { recursive: true });
  });

  function open(name: string, ledger: LedgerStore): Promise<Accounting> {
    return Accounting.open({
      store: ledger,
      dataDir: join(folder, name),
      durability: 'journal',
      processId: `${name}-process`,
      log: createLog(() => undefined),
      onEnded: () => undefined,
    });
  }

  /** One piece as the story settles it: held, sent, charged 70 credits. */
  async function charge(books: Accounting, who: Who, requestId: string): Promise<void> {
    const caller = callerOf(who.tenantId, { keyId: who.keyId });
    const order = { requested: 100, minimum: 100 };
    const hold = await books.hold({ caller } as Parameters<Accounting['hold']>[0], order);
    const call = { requestId, ...who, operation: 'speech', requestedModel: 'a/b' } as const;
    await books.dispatched({ ...call, streamed: false, createdAt: Date.now() });
    await hold.settle(70);
    const charges = { ...noCharges, modelCharge: 70 };
    const record = makeRecord({ ...call, charges, createdAt: Date.now() });
    await books.saveSettlement({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }, true);
  }

  /** After a doubt the first try may fail; the books find out by themselves. */
  async function flush(books: Accounting): Promise<void> {
    await books.flush().catch(() => books.flush());
  }

  async function spent(store: Store, { tenantId }: Who): Promise<number> {
    const row = await store.database.read
      .selectFrom('accounts')
      .select('spent')
      .where('owner', '=', `tenant:${tenantId}`)
      .executeTakeFirstOrThrow();
    return row.spent;
  }

  test('by two processes that both live costs once', async () => {
    const who = await addCustomer(stores.one);
    const [first, second] = [
      await open('first', stores.one.ledger),
      await open('second', stores.other.ledger),
    ];
    const requestId = newRequestId();
    await charge(first, who, requestId);
    await flush(first);
    await charge(second, who, requestId);
    await charge(second, who, newRequestId());
    await flush(second);
    expect(await spent(stores.one, who)).toBe(140);
    const parts = { store: stores.one, accounting: first, stages: never, now: Date.now };
    const runner = new GatewayJobRunner(parts);
    expect(await runner.chargeOf(who.tenantId, requestId)).toBe(70);
    expect(await runner.chargeOf(who.tenantId, newRequestId())).toBeNull();
    expect(await runner.chargeOf('somebody-else', requestId)).toBeNull();
    await first.close();
    await second.close();
    expect(await discrepancies(stores.one.database)).toEqual([]);
  }, 120_000);

  test('by one that died before it could book it, and by its successor, costs once', async () => {
    const who = await addCustomer(stores.one);
    const { ledger } = stores.one;
    const deaf: LedgerStore = new Proxy(ledger, {
      get(target, name) {
        if (name === 'commit') return () => Promise.reject(new Error('killed'));
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const dead = await open('dead', deaf);
    const requestId = newRequestId();
    await charge(dead, who, requestId);
    const successor = await open('successor', stores.other.ledger);
    await charge(successor, who, requestId);
    await flush(successor);
    expect(await spent(stores.one, who)).toBe(70);
    // The machine of the dead one comes back and tells what its journal holds.
    const revived = await open('dead', ledger);
    expect(await spent(stores.one, who)).toBe(70);
    await successor.close();
    await revived.close();
    expect(await discrepancies(stores.one.database)).toEqual([]);
  }, 120_000);
});

type Who = Awaited<ReturnType<typeof addCustomer>>;

function never(): never {
  throw new Error('Nothing is called here.');
}
