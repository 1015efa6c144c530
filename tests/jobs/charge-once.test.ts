/** The ledger charges a request ID once, whichever processes book it, and however often. */
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
import { callerOf } from '../support/caller.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { unlockJournals } from '../support/money/journal-line.ts';

describe.each([...engines])('a piece charged by two processes on $name', ({ empty }) => {
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

  /** Settles a piece as the gateway does: holds credits, sends the request, charges 70 credits. */
  async function charge(accounting: Accounting, owner: Owner, requestId: string): Promise<void> {
    const caller = callerOf(owner.tenantId, { keyId: owner.keyId });
    const bound = { requested: 100, minimum: 100 };
    const hold = await accounting.hold({ caller } as Parameters<Accounting['hold']>[0], bound);
    const call = { requestId, ...owner, operation: 'speech', requestedModel: 'a/b' } as const;
    await accounting.dispatched({ ...call, streamed: false, createdAt: Date.now() });
    await hold.settle(70);
    const charges = { ...noCharges, modelCharge: 70 };
    const record = makeRecord({ ...call, charges, createdAt: Date.now() });
    await accounting.saveSettlement(
      { record, writtenOff: 0, keyAccount: null, keyCharge: 0 },
      true,
    );
  }

  /** Flushes, with one retry: after a commit with an unknown outcome, the first flush may fail. */
  async function flush(accounting: Accounting): Promise<void> {
    await accounting.flush().catch(() => accounting.flush());
  }

  async function spent(store: Store, { tenantId }: Owner): Promise<number> {
    const row = await store.database.read
      .selectFrom('accounts')
      .select('spent')
      .where('owner', '=', `tenant:${tenantId}`)
      .executeTakeFirstOrThrow();
    return row.spent;
  }

  test('is booked once when both processes are running', async () => {
    const owner = await addCustomer(stores.one);
    const [first, second] = [
      await open('first', stores.one.ledger),
      await open('second', stores.other.ledger),
    ];
    const requestId = newRequestId();
    await charge(first, owner, requestId);
    await flush(first);
    await charge(second, owner, requestId);
    await charge(second, owner, newRequestId());
    await flush(second);
    expect(await spent(stores.one, owner)).toBe(140);
    const deps = { store: stores.one, accounting: first, stages: unexpected, now: Date.now };
    const runner = new GatewayJobRunner(deps);
    const { tenantId } = owner;
    const charged = { kind: 'charged', credits: 70 } as const;
    expect(await runner.chargeOf(tenantId, requestId)).toEqual(charged);
    expect(await runner.chargeOf(tenantId, newRequestId())).toEqual({ kind: 'unrecorded' });
    expect(await runner.chargeOf('other-tenant', requestId)).toEqual({ kind: 'unrecorded' });
    await first.close();
    await second.close();
    expect(await discrepancies(stores.one.database)).toEqual([]);
  }, 120_000);

  test('is booked once when the first process crashed before it booked the piece', async () => {
    const owner = await addCustomer(stores.one);
    const { ledger } = stores.one;
    const failing: LedgerStore = new Proxy(ledger, {
      get(target, name) {
        if (name === 'commit') return () => Promise.reject(new Error('killed'));
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const crashed = await open('crashed', failing);
    const requestId = newRequestId();
    await charge(crashed, owner, requestId);
    const successor = await open('successor', stores.other.ledger);
    await charge(successor, owner, requestId);
    await flush(successor);
    expect(await spent(stores.one, owner)).toBe(70);
    // The first process restarts and replays its journal.
    unlockJournals(join(folder, 'crashed', 'journal'));
    const restarted = await open('crashed', ledger);
    expect(await spent(stores.one, owner)).toBe(70);
    await successor.close();
    await restarted.close();
    expect(await discrepancies(stores.one.database)).toEqual([]);
  }, 120_000);
});

type Owner = Awaited<ReturnType<typeof addCustomer>>;

function unexpected(): never {
  throw new Error('Unexpected call.');
}
