import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { makeTenant } from '../../../tests/contracts/engines.ts';
import { newFolder } from '../../../tests/support/gateway.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { openStore, type Store } from '../../store/open.ts';
import type { LedgerStore } from '../ledger.ts';
import { Wallets } from './wallets.ts';

let store: Store;
let now = 0;
let tenantId = '';
let processes = 0;
let isStoreDown = false;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(newFolder(), 'tollgate.db')}`);
});
afterAll(async () => {
  await store.database.close();
});
beforeEach(async () => {
  isStoreDown = false;
  // Leases of the previous test expire within a day.
  now = (now || Date.UTC(2030, 0, 15, 12)) + 86_400_000;
  const tenant = makeTenant();
  tenantId = tenant.id;
  await store.directory.addTenant(tenant);
  await grant(1_000);
});

async function grant(amount: number): Promise<void> {
  await store.creditStore.change({ tenantId, amount, note: '', idempotencyKey: null, now });
}

function walletsWith(
  change: Partial<LedgerStore> = {},
  pause: () => Promise<void> = () => Bun.sleep(1),
): Wallets {
  const { ledger } = store;
  const ifUp = async <T>(call: () => Promise<T>): Promise<T> => {
    if (isStoreDown) throw new Error('unavailable');
    return call();
  };
  const ledgerStore: LedgerStore = {
    lease: (amounts) => ifUp(() => ledger.lease(amounts)),
    returnCredits: (back) => ifUp(() => ledger.returnCredits(back)),
    renew: (id, until) => ifUp(() => ledger.renew(id, until)),
    expire: (at, dead) => ifUp(() => ledger.expire(at, dead)),
    recall: (owner, id) => ifUp(() => ledger.recall(owner, id)),
    pendingRecalls: (id) => ifUp(() => ledger.pendingRecalls(id)),
    reportHolds: (id, holds) => ifUp(() => ledger.reportHolds(id, holds)),
    commit: (batch) => ifUp(() => ledger.commit(batch)),
    commitWithAnswers: (batch, answers) => ifUp(() => ledger.commitWithAnswers(batch, answers)),
    ...change,
  };
  return new Wallets(ledgerStore, `wallets${++processes}`, () => now, pause);
}

const exactly = (credits: number) => ({ requested: credits, minimum: credits });
const rejection = async (holding: () => unknown) => {
  try {
    await holding();
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
  throw new Error('The hold was not rejected.');
};
const leased = async (owner = `tenant:${tenantId}`) => {
  const found = await store.database.read
    .selectFrom('accounts')
    .select('leased')
    .where('owner', '=', owner)
    .executeTakeFirst();
  return found?.leased ?? 0;
};
const addCredits = 'Add credits or send a smaller request.';
const unavailable = "The credit store can't be reached. Try again shortly.";

describe('Wallets.hold', () => {
  test('reports the credits left and needed if the wallet has too few', async () => {
    const wallets = walletsWith();
    await wallets.hold(callerOf(tenantId), exactly(990));
    expect(await rejection(() => wallets.hold(callerOf(tenantId), exactly(11)))).toBe(
      `This account has 10 credits left; the request needs at least 11. ${addCredits}`,
    );
    await wallets.hold(callerOf(tenantId), exactly(9));
    expect(await rejection(() => wallets.hold(callerOf(tenantId), exactly(2)))).toBe(
      `This account has 1 credit left; the request needs at least 2. ${addCredits}`,
    );
  });

  test('holds the smaller amount of wallet and key, and releases the rest', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `k-${tenantId}`, limitCredits: 300 });
    const hold = await wallets.hold(limited, { requested: 400, minimum: 100 });
    expect([hold.credits, hold.keyAccount]).toEqual([300, `key:k-${tenantId}`]);
    const message =
      'This key has 0 credits left; the request needs at least 1. ' +
      "Raise the key's limit or send a smaller request.";
    expect(await rejection(() => wallets.hold(limited, exactly(1)))).toBe(message);
    // The rejected hold has released the wallet's credits.
    expect((await wallets.hold(callerOf(tenantId), exactly(700))).credits).toBe(700);
  });

  test("releases the key's credits if the wallet gives fewer or none", async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `w-${tenantId}`, limitCredits: 5_000 });
    const hold = await wallets.hold(limited, { requested: 1_200, minimum: 1 });
    expect(hold.credits).toBe(1_000);
    const rejected = await rejection(() => wallets.hold(limited, exactly(1)));
    expect(rejected).toContain('This account has 0');
    expect(await hold.extend(1)).toBeNull();
    // 1,000 on each of both accounts.
    expect(wallets.totals().heldCredits).toBe(2_000);
    await hold.settle(0);
    expect(wallets.totals().heldCredits).toBe(0);
  });

  test("does not lease from the wallet beyond the key's limit", async () => {
    const requests: string[] = [];
    const wallets = walletsWith({
      lease: (amounts) => {
        requests.push(amounts.owner.name);
        return store.ledger.lease(amounts);
      },
    });
    const keyId = `b-${tenantId}`;
    const limited = callerOf(tenantId, { keyId, limitCredits: 20 });
    const hold = await wallets.hold(limited, exactly(20));
    expect(requests.splice(0)).toEqual([`key:${keyId}`, `tenant:${tenantId}`]);
    expect(await hold.extend(900)).toBeNull();
    await rejection(() => wallets.hold(limited, exactly(900)));
    expect(requests).toEqual([`key:${keyId}`, `key:${keyId}`]);
  });

  test('settles a hold only once', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(600));
    expect(hold.settled).toBe(false);
    expect(await hold.settle(100)).toEqual({ wallet: 100, key: 0 });
    expect(await hold.settle(0)).toEqual({ wallet: 100, key: 0 });
    expect(hold.settled).toBe(true);
    expect((await wallets.hold(callerOf(tenantId), exactly(900))).credits).toBe(900);
  });

  test('releases an extension of a hold that settles in the meantime', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    const extending = hold.extend(500);
    await hold.settle(10);
    expect(await extending).toBeNull();
    expect(await hold.extend(1)).toBeNull();
    expect((await wallets.hold(callerOf(tenantId), exactly(990))).credits).toBe(990);
  });

  test("extends a hold by what the key's limit allows", async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `g-${tenantId}`, limitCredits: 50 });
    const hold = await wallets.hold(limited, exactly(20));
    expect(await hold.extend(30)).toBe(30);
    expect(await hold.extend(1)).toBeNull();
    expect(hold.credits).toBe(50);
    expect((await wallets.hold(callerOf(tenantId), exactly(950))).credits).toBe(950);
  });

  test('extends a hold by less than requested, but not by less than the minimum', async () => {
    const wallets = walletsWith();
    const caller = callerOf(tenantId, { keyId: `l-${tenantId}`, limitCredits: 90 });
    const hold = await wallets.hold(caller, exactly(60));
    expect(await hold.extend(100, 31)).toBeNull();
    expect(await hold.extend(100, 30)).toBe(30);
    expect([hold.credits, await hold.extend(1)]).toEqual([90, null]);
    await hold.settle(90);
    // The wallet keeps what the key couldn't give.
    expect((await wallets.hold(callerOf(tenantId), exactly(910))).credits).toBe(910);
  });

  test('extends a hold by what the wallet has left, and releases the rest on the key', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `e-${tenantId}`, limitCredits: 5_000 });
    const hold = await wallets.hold(limited, exactly(600));
    expect(await hold.extend(900, 1)).toBe(400);
    await hold.settle(0);
    expect(wallets.totals().heldCredits).toBe(0);
  });

  test('charges more than the hold, up to what the wallet still has', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    expect(await hold.settle(1_300)).toEqual({ wallet: 1_000, key: 0 });
  });

  test('does not charge the key for what the wallet did not pay', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `n-${tenantId}`, limitCredits: 5_000 });
    const hold = await wallets.hold(limited, exactly(10));
    expect(await hold.settle(1_300)).toEqual({ wallet: 1_000, key: 1_000 });
    expect(wallets.totals()).toMatchObject({ heldCredits: 0, unbookedCredits: 2_000 });
  });

  test('charges no more than the hold while the store is down', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(900));
    isStoreDown = true;
    expect(await hold.settle(950)).toEqual({ wallet: 900, key: 0 });
  });
});

describe('Wallets while the store is down', () => {
  test('hold credits within the lease, and no more', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(100));
    await hold.settle(0);
    isStoreDown = true;
    // The lease has 100 credits plus an eighth of the other 900, in whole holds.
    expect((await wallets.hold(callerOf(tenantId), exactly(200))).credits).toBe(200);
    expect(await rejection(() => wallets.hold(callerOf(tenantId), exactly(1)))).toBe(unavailable);
  });

  test('do not use a lease that may have expired', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    isStoreDown = true;
    now += 110_000;
    expect(await rejection(() => wallets.hold(callerOf(tenantId), exactly(1)))).toBe(unavailable);
    expect(await rejection(() => hold.extend(1))).toBe(unavailable);
    isStoreDown = false;
    await wallets.renew();
    expect((await wallets.hold(callerOf(tenantId), exactly(1))).credits).toBe(1);
  });

  test('do not wait for a renewal after the last one failed', async () => {
    let renewals = 0;
    const wallets = walletsWith({
      renew: async () => {
        renewals += 1;
        throw new Error('unavailable');
      },
    });
    await wallets.renew().catch(() => undefined);
    now += 110_000;
    expect(await rejection(() => wallets.hold(callerOf(tenantId), exactly(1)))).toBe(unavailable);
    expect(renewals).toBe(1);
  });

  test('do not use a lease whose credits went to another process', async () => {
    const [sleeper, other] = [walletsWith(), walletsWith()];
    const hold = await sleeper.hold(callerOf(tenantId), exactly(100));
    now += 61_000;
    await other.renew();
    now += 60_000;
    await other.renew();
    const taken = await other.hold(callerOf(tenantId), exactly(950));
    await sleeper.renew();
    expect(await rejection(() => sleeper.hold(callerOf(tenantId), exactly(1)))).toContain(
      '950 credits are leased to a gateway process',
    );
    await taken.settle(0);
    await hold.settle(0);
    await Promise.all([sleeper.returnAll(), other.returnAll()]);
    expect(await leased()).toBe(0);
  });

  test('do not revive a lost lease by renewals, and count the next one', async () => {
    const wallets = walletsWith();
    const running = await wallets.hold(callerOf(tenantId), exactly(300));
    now += 130_000;
    await walletsWith().renew();
    for (let times = 0; times < 3; times++) await wallets.renew();
    await wallets.hold(callerOf(tenantId), exactly(200));
    await running.settle(0);
    expect(wallets.totals()).toMatchObject({ leasedCredits: await leased(), heldCredits: 200 });
  });
});

test('Wallets return credits later if a slow return fails', async () => {
  const lost = Promise.withResolvers<never>();
  let isLost = true;
  const wallets = walletsWith({
    returnCredits: (back) => (isLost ? lost.promise : store.ledger.returnCredits(back)),
  });
  await (await wallets.hold(callerOf(tenantId), exactly(100))).settle(0);
  await store.ledger.recall(`tenant:${tenantId}`, 'another');
  const answering = wallets.answerRecalls().catch(() => undefined);
  await waitUntil(() => wallets.totals().leasedCredits === 0);
  expect(await leased()).toBe(200);
  now += 6_000;
  await wallets.renew();
  lost.reject(new Error('lost'));
  await answering;
  isLost = false;
  for (let round = 0; round < 2; round++) {
    now += 6_000;
    await wallets.renew();
  }
  expect(await leased()).toBe(0);
});

test('Wallets return idle credits after the clock was set back', async () => {
  const wallets = walletsWith();
  await (await wallets.hold(callerOf(tenantId), exactly(100))).settle(0);
  now -= 3_600_000;
  await wallets.renew();
  expect(await leased()).toBe(0);
});

describe('Wallets after a clock jump or sleep', () => {
  const dayMs = 86_400_000;

  test('reject neither new nor running requests', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    now += dayMs;
    expect(await hold.extend(5)).toBe(5);
    now += dayMs;
    const holding = [1, 2].map(() => wallets.hold(callerOf(tenantId), exactly(1)));
    expect((await Promise.all(holding)).map(({ credits }) => credits)).toEqual([1, 1]);
  });

  test('expire no lease before all processes had time to renew', async () => {
    const [one, other, dead] = [walletsWith(), walletsWith(), walletsWith()];
    const hold = await one.hold(callerOf(tenantId), exactly(600));
    await dead.hold(callerOf(tenantId), exactly(300));
    now += dayMs;
    const all = () => other.hold(callerOf(tenantId), exactly(400));
    expect(await rejection(all)).toContain('900 credits are leased to a gateway process');
    now += 10_000;
    await Promise.all([one.renew(), other.renew()]);
    expect(await leased()).toBeGreaterThanOrEqual(900);
    expect(await hold.settle(600)).toEqual({ wallet: 600, key: 0 });
    for (let round = 0; round < 12; round += 1) {
      now += 10_000;
      await Promise.all([one.renew(), other.renew()]);
    }
    expect((await all()).credits).toBe(400);
  });

  test('expire no lease if the clock jumps during a renewal', async () => {
    const other = walletsWith();
    const hold = await other.hold(callerOf(tenantId), exactly(600));
    const one = walletsWith({
      renew: async (id, until) => {
        const alive = await store.ledger.renew(id, until);
        now += dayMs;
        return alive;
      },
    });
    await one.renew();
    expect(await leased()).toBeGreaterThanOrEqual(600);
    expect(await hold.settle(600)).toEqual({ wallet: 600, key: 0 });
  });

  test("expire a dead process's lease even if the clock keeps jumping", async () => {
    const [one, dead] = [walletsWith(), walletsWith()];
    await dead.hold(callerOf(tenantId), exactly(900));
    for (let sleeps = 0; sleeps < 4; sleeps += 1) {
      expect(await leased()).toBeGreaterThanOrEqual(900);
      now += dayMs;
      await one.renew();
    }
    expect(await leased()).toBe(0);
  });

  test('make a request wait for the renewal, but not for the periodic tasks after it', async () => {
    const wallets = walletsWith({ returnCredits: () => new Promise(() => undefined) });
    const idle = await wallets.hold(callerOf(tenantId), exactly(10));
    await idle.settle(0);
    now += dayMs;
    void wallets.renew();
    expect((await wallets.hold(callerOf(tenantId), exactly(1))).credits).toBe(1);
  });
});

describe('key limit across periods', () => {
  test('counts a request in the period of its arrival', async () => {
    const wallets = walletsWith();
    const limited = { ...callerOf(tenantId), limitCredits: 100, limitReset: 'daily' as const };
    const arrivedAt = now;
    now += 86_400_000;
    const late = await wallets.hold(limited, exactly(80), arrivedAt);
    expect(late.keyAccount).toEndWith(new Date(arrivedAt).toISOString().slice(0, 10));
    expect((await wallets.hold(limited, exactly(80))).credits).toBe(80);
  });
});

describe('Hold.maxCredits', () => {
  /** Wallets that count calls to the store. */
  function countedWallets() {
    const counter = { requests: 0 };
    const lease: LedgerStore['lease'] = (amounts) => {
      counter.requests += 1;
      return isStoreDown ? Promise.reject(new Error('unavailable')) : store.ledger.lease(amounts);
    };
    return { wallets: walletsWith({ lease }), counter };
  }

  test('returns all credits that no request holds, cached for 10 seconds', async () => {
    const { wallets, counter } = countedWallets();
    await wallets.hold(callerOf(tenantId), exactly(100));
    const hold = await wallets.hold(callerOf(tenantId), exactly(50));
    expect(counter.requests).toBe(1);
    expect([await hold.maxCredits(900), counter.requests]).toEqual([900, 1]);
    now += 10_000;
    expect([await hold.maxCredits(900), counter.requests]).toEqual([900, 2]);
    now += 10_000;
    // Held credits don't need a fresh balance.
    expect([await hold.maxCredits(50), counter.requests]).toEqual([50, 2]);
  });

  test('reads the balance again if the known one is too small', async () => {
    const { wallets, counter } = countedWallets();
    const hold = await wallets.hold(callerOf(tenantId), exactly(50));
    await grant(500);
    expect([await hold.maxCredits(1_000), await hold.maxCredits(1_001)]).toEqual([1_000, 1_500]);
    expect([await hold.maxCredits(2_000), counter.requests]).toEqual([1_500, 3]);
    expect((await wallets.hold(callerOf(tenantId), exactly(1_450))).credits).toBe(1_450);
  });

  test("is bounded by the key's limit and includes credits leased by others", async () => {
    const [{ wallets }, elsewhere] = [countedWallets(), walletsWith()];
    await elsewhere.hold(callerOf(tenantId), exactly(8));
    const hold = await wallets.hold(callerOf(tenantId), exactly(40));
    expect(await hold.maxCredits(10_000)).toBe(1_000);
    const key = callerOf(tenantId, { keyId: `r-${tenantId}`, limitCredits: 300 });
    const limited = await wallets.hold(key, exactly(40));
    expect(await limited.maxCredits(10_000)).toBe(300);
  });

  test('shares one read between callers and does not wait long for a frozen store', async () => {
    let isFrozen = false;
    let requests = 0;
    const lease: LedgerStore['lease'] = (amounts) => {
      requests += 1;
      return isFrozen ? new Promise(() => {}) : store.ledger.lease(amounts);
    };
    const wallets = walletsWith({ lease });
    const hold = await wallets.hold(callerOf(tenantId), exactly(40));
    now += 10_000;
    isFrozen = true;
    const reaching = [hold.maxCredits(900), hold.maxCredits(10_000)];
    // The lease covers this hold, so it doesn't wait.
    const other = await wallets.hold(callerOf(tenantId), exactly(1));
    expect([other.credits, requests]).toEqual([1, 2]);
    expect(await Promise.all(reaching)).toEqual([999, 999]);
    expect([await hold.maxCredits(900), requests]).toEqual([999, 2]);
  });

  test('uses the last known balance while the store is down', async () => {
    const { wallets } = countedWallets();
    const hold = await wallets.hold(callerOf(tenantId), exactly(40));
    isStoreDown = true;
    expect(await hold.maxCredits(10_000)).toBe(1_000);
  });
});

test('Wallets owe charges until they are committed or canceled', async () => {
  const wallets = walletsWith();
  await (await wallets.hold(callerOf(tenantId), exactly(100))).settle(40);
  // The lease has 100 credits plus an eighth of the other 900, in whole holds.
  const settled = { leases: 1, leasedCredits: 200, heldCredits: 0, unbookedCredits: 40 };
  expect(wallets.totals()).toEqual(settled);
  const account = `tenant:${tenantId}`;
  wallets.booked([{ account, charge: 30, fromLease: { lease: 1, credits: 30 } }]);
  const booked = { ...settled, leasedCredits: 170, unbookedCredits: 10 };
  expect(wallets.totals()).toEqual(booked);
  wallets.cancelCharges([{ account, charge: 10 }]);
  const canceled = { ...booked, unbookedCredits: 0 };
  expect(wallets.totals()).toEqual(canceled);
});

describe('idle credits', () => {
  test('are returned after a while, and the account is dropped', async () => {
    let reads = 0;
    const pendingRecalls = async () => {
      reads += 1;
      return [];
    };
    const wallets = walletsWith({ pendingRecalls });
    const hold = await wallets.hold(callerOf(tenantId), exactly(100));
    await hold.settle(0);
    await wallets.renew();
    expect(await leased()).toBe(200);
    await wallets.answerRecalls();
    now += 6_000;
    await wallets.renew();
    expect(await leased()).toBe(0);
    // No account is left on which others could need credits.
    await wallets.answerRecalls();
    expect(reads).toBe(1);
    expect((await wallets.hold(callerOf(tenantId), exactly(1_000))).credits).toBe(1_000);
  });

  test('are requested only twice if each call to the store is slow', async () => {
    const rich = walletsWith();
    await rich.hold(callerOf(tenantId), exactly(900));
    let trips = 0;
    const lease: LedgerStore['lease'] = (amounts) => {
      trips += 1;
      now += 1_500;
      return store.ledger.lease(amounts);
    };
    const slow = walletsWith({ lease });
    const rejected = await rejection(() => slow.hold(callerOf(tenantId), exactly(700)));
    expect(rejected).toContain('900 credits are leased to a gateway process');
    expect(trips).toBe(2);
  });

  test('are waited for again after the machine was suspended', async () => {
    const rich = walletsWith();
    await (await rich.hold(callerOf(tenantId), exactly(1_000))).settle(0);
    let pauses = 0;
    const poor = walletsWith({}, async () => {
      pauses += 1;
      if (pauses === 1) now += 5_000;
      else await rich.answerRecalls();
    });
    expect((await poor.hold(callerOf(tenantId), exactly(700))).credits).toBe(700);
  });

  test('go to another process that needs them, unless they are held', async () => {
    const rich = walletsWith();
    await (await rich.hold(callerOf(tenantId), exactly(1_000))).settle(0);
    await rich.hold(callerOf(tenantId), exactly(300));
    const poor = walletsWith({}, () => rich.answerRecalls());
    const rest = await poor.hold(callerOf(tenantId), { requested: 1_000, minimum: 700 });
    expect(rest.credits).toBe(700);
  });

  test('are requested again by a process that returned them during its own request', async () => {
    let starving = 0;
    const wallets: Wallets = walletsWith({
      lease: async (amounts) => {
        const answer = await store.ledger.lease(amounts);
        if (starving-- === 1) await store.ledger.recall(`tenant:${tenantId}`, 'another');
        await wallets.answerRecalls();
        return answer;
      },
    });
    await (await wallets.hold(callerOf(tenantId), exactly(100))).settle(0);
    starving = 1;
    expect((await wallets.hold(callerOf(tenantId), exactly(250))).credits).toBe(250);
  });
});

describe('changed key limit', () => {
  test('lets running requests end and rejects new ones', async () => {
    const wallets = walletsWith();
    const key = { keyId: `l-${tenantId}`, limitCredits: 500 };
    const hold = await wallets.hold(callerOf(tenantId, key), exactly(100));
    const lowered = callerOf(tenantId, { ...key, limitCredits: 120 });
    expect((await wallets.hold(lowered, { requested: 50, minimum: 1 })).credits).toBe(20);
    expect(await hold.settle(100)).toEqual({ wallet: 100, key: 100 });
    expect(await rejection(() => wallets.hold(lowered, exactly(1)))).toContain('This key has 0');
    const raised = callerOf(tenantId, { ...key, limitCredits: 200 });
    expect((await wallets.hold(raised, exactly(80))).credits).toBe(80);
  });

  test('rejects requests once lowered to what was spent, whatever is leased', async () => {
    const wallets = walletsWith();
    const key = { keyId: `s-${tenantId}`, limitCredits: 1_000 };
    await (await wallets.hold(callerOf(tenantId, key), exactly(100))).settle(100);
    const lowered = callerOf(tenantId, { ...key, limitCredits: 100 });
    expect(await rejection(() => wallets.hold(lowered, exactly(1)))).toContain('This key has 0');
  });

  test('allows the rest of a lowered limit, even if the leased credits are returned late', async () => {
    const returnCredits: LedgerStore['returnCredits'] = async (back) => {
      await Bun.sleep(50);
      await store.ledger.returnCredits(back);
    };
    const wallets = walletsWith({ returnCredits });
    const key = { keyId: `b-${tenantId}`, limitCredits: 500 };
    await (await wallets.hold(callerOf(tenantId, key), exactly(500))).settle(0);
    const lowered = callerOf(tenantId, { ...key, limitCredits: 400 });
    expect((await wallets.hold(lowered, exactly(400))).credits).toBe(400);
  });

  test('starts again at midnight and charges earlier requests to the day before', async () => {
    now = Date.UTC(2031, 2, 31, 23, 59, 59, 999);
    const wallets = walletsWith();
    const caller = callerOf(tenantId, {
      keyId: `d-${tenantId}`,
      limitCredits: 100,
      limitReset: 'daily',
    });
    const late = await wallets.hold(caller, exactly(100));
    expect(await rejection(() => wallets.hold(caller, exactly(1)))).toContain('This key has 0');
    now += 1;
    const early = await wallets.hold(caller, exactly(100));
    expect([late.keyAccount, early.keyAccount]).toEqual([
      `key:d-${tenantId}:2031-03-31`,
      `key:d-${tenantId}:2031-04-01`,
    ]);
    expect(await late.settle(100)).toEqual({ wallet: 100, key: 100 });
  });
});
