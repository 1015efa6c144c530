import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeTenant } from '../../../tests/contracts/engines.ts';
import { callerOf } from '../../../tests/support/money/settlements.ts';
import { openStore, type Store } from '../../store/open.ts';
import type { LedgerStore } from '../ledger.ts';
import { Wallets } from './wallets.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-wallets-'));
let store: Store;
let now = 0;
let tenantId = '';
let processes = 0;
let isAway = false;

beforeAll(async () => {
  store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
});
afterAll(async () => {
  await store.database.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  isAway = false;
  // Far enough behind the last test that its leases have ended.
  now = (now || Date.UTC(2030, 0, 15, 12)) + 86_400_000;
  const tenant = makeTenant();
  tenantId = tenant.id;
  await store.directory.addTenant(tenant);
  await grant(1_000);
});

async function grant(amount: number): Promise<void> {
  await store.creditBook.change({ tenantId, amount, note: '', idempotencyKey: null, now });
}

function walletsWith(
  change: Partial<LedgerStore> = {},
  pause: () => Promise<void> = () => Bun.sleep(1),
): Wallets {
  const { ledger } = store;
  const here = async <T>(act: () => Promise<T>): Promise<T> => {
    if (isAway) throw new Error('away');
    return act();
  };
  const whole: LedgerStore = {
    lease: (amounts) => here(() => ledger.lease(amounts)),
    returnCredits: (back) => here(() => ledger.returnCredits(back)),
    renew: (id, until) => here(() => ledger.renew(id, until)),
    expire: (at, dead) => here(() => ledger.expire(at, dead)),
    recall: (owner, id) => here(() => ledger.recall(owner, id)),
    pendingRecalls: (id) => here(() => ledger.pendingRecalls(id)),
    commit: (batch) => here(() => ledger.commit(batch)),
    commitWithAnswers: (batch, answers) => here(() => ledger.commitWithAnswers(batch, answers)),
    ...change,
  };
  return new Wallets(whole, `wallets${++processes}`, () => now, pause);
}

const exactly = (credits: number) => ({ requested: credits, minimum: credits });
const refusal = async (holding: () => unknown) => {
  try {
    await holding();
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
  throw new Error('It was not refused.');
};
const leased = async (owner = `tenant:${tenantId}`) => {
  const found = await store.database.read
    .selectFrom('accounts')
    .select('leased')
    .where('owner', '=', owner)
    .executeTakeFirst();
  return found?.leased ?? 0;
};
const empty = 'The credit store cannot be reached and the credits at hand are used up.';

describe('a hold', () => {
  test('on a wallet that is empty says what is there and what is needed', async () => {
    const wallets = walletsWith();
    await wallets.hold(callerOf(tenantId), exactly(990));
    expect(await refusal(() => wallets.hold(callerOf(tenantId), exactly(11)))).toBe(
      'This account has 10 credits left and this request needs at least 11.',
    );
    await wallets.hold(callerOf(tenantId), exactly(9));
    expect(await refusal(() => wallets.hold(callerOf(tenantId), exactly(2)))).toBe(
      'This account has 1 credit left and this request needs at least 2.',
    );
  });

  test('on wallet and key is the smaller of the two, and leaves no rest behind', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `k-${tenantId}`, limitCredits: 300 });
    const hold = await wallets.hold(limited, { requested: 400, minimum: 100 });
    expect([hold.credits, hold.keyAccount]).toEqual([300, `key:k-${tenantId}`]);
    const message = 'This API key has 0 credits left and this request needs at least 1.';
    expect(await refusal(() => wallets.hold(limited, exactly(1)))).toBe(message);
    // Everything the refused one had of the wallet is free again.
    expect((await wallets.hold(callerOf(tenantId), exactly(700))).credits).toBe(700);
  });

  test('that the wallet cannot give whole, or at all, leaves no rest on the key', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `w-${tenantId}`, limitCredits: 5_000 });
    const hold = await wallets.hold(limited, { requested: 1_200, minimum: 1 });
    expect(hold.credits).toBe(1_000);
    const refused = await refusal(() => wallets.hold(limited, exactly(1)));
    expect(refused).toContain('This account has 0');
    expect(await hold.extend(1)).toBeNull();
    // The same on both accounts.
    expect(wallets.totals().heldCredits).toBe(2_000);
    await hold.settle(0);
    expect(wallets.totals().heldCredits).toBe(0);
  });

  test('beyond its key’s limit asks nothing of the wallet', async () => {
    const asked: string[] = [];
    const wallets = walletsWith({
      lease: (amounts) => {
        asked.push(amounts.owner.name);
        return store.ledger.lease(amounts);
      },
    });
    const keyId = `b-${tenantId}`;
    const limited = callerOf(tenantId, { keyId, limitCredits: 20 });
    const hold = await wallets.hold(limited, exactly(20));
    expect(asked.splice(0)).toEqual([`key:${keyId}`, `tenant:${tenantId}`]);
    expect(await hold.extend(900)).toBeNull();
    await refusal(() => wallets.hold(limited, exactly(900)));
    expect(asked).toEqual([`key:${keyId}`, `key:${keyId}`]);
  });

  test('is ended once, however often it is settled', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(600));
    expect(hold.settled).toBe(false);
    expect(await hold.settle(100)).toEqual({ wallet: 100, key: 0 });
    expect(await hold.settle(0)).toEqual({ wallet: 100, key: 0 });
    expect(hold.settled).toBe(true);
    expect((await wallets.hold(callerOf(tenantId), exactly(900))).credits).toBe(900);
  });

  test('that is extended while it ends keeps nothing', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    const extending = hold.extend(500);
    await hold.settle(10);
    expect(await extending).toBeNull();
    expect(await hold.extend(1)).toBeNull();
    expect((await wallets.hold(callerOf(tenantId), exactly(990))).credits).toBe(990);
  });

  test('grows by what the key’s limit allows, or not at all', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `g-${tenantId}`, limitCredits: 50 });
    const hold = await wallets.hold(limited, exactly(20));
    expect(await hold.extend(30)).toBe(30);
    expect(await hold.extend(1)).toBeNull();
    expect(hold.credits).toBe(50);
    expect((await wallets.hold(callerOf(tenantId), exactly(950))).credits).toBe(950);
  });

  test('grows by less than wanted, but not by less than the least', async () => {
    const wallets = walletsWith();
    const caller = callerOf(tenantId, { keyId: `l-${tenantId}`, limitCredits: 90 });
    const hold = await wallets.hold(caller, exactly(60));
    expect(await hold.extend(100, 31)).toBeNull();
    expect(await hold.extend(100, 30)).toBe(30);
    expect([hold.credits, await hold.extend(1)]).toEqual([90, null]);
    await hold.settle(90);
    // What the key could not give was not kept from the wallet.
    expect((await wallets.hold(callerOf(tenantId), exactly(910))).credits).toBe(910);
  });

  test('grows by what the wallet has left, and leaves no rest on the key', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `e-${tenantId}`, limitCredits: 5_000 });
    const hold = await wallets.hold(limited, exactly(600));
    expect(await hold.extend(900, 1)).toBe(400);
    await hold.settle(0);
    expect([wallets.totals().heldCredits, wallets.spareOfAll()]).toEqual([0, 1_000]);
  });

  test('charges beyond itself what the wallet still has', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    expect(await hold.settle(1_300)).toEqual({ wallet: 1_000, key: 0 });
  });

  test('charges its key for nothing that the wallet did not pay', async () => {
    const wallets = walletsWith();
    const limited = callerOf(tenantId, { keyId: `n-${tenantId}`, limitCredits: 5_000 });
    const hold = await wallets.hold(limited, exactly(10));
    expect(await hold.settle(1_300)).toEqual({ wallet: 1_000, key: 1_000 });
    expect(wallets.totals()).toMatchObject({ heldCredits: 0, owedCredits: 2_000 });
  });

  test('charges beyond itself in full when nobody knows what the wallet has', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(900));
    isAway = true;
    expect(await hold.settle(950)).toEqual({ wallet: 950, key: 0 });
  });
});

describe('without the store', () => {
  test('requests go on within the lease, and no further', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(100));
    await hold.settle(0);
    isAway = true;
    // 100, and the whole holds in an eighth of the other 900.
    expect((await wallets.hold(callerOf(tenantId), exactly(200))).credits).toBe(200);
    expect(await refusal(() => wallets.hold(callerOf(tenantId), exactly(1)))).toBe(empty);
  });

  test('nobody uses a lease that may have ended', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    isAway = true;
    now += 110_000;
    expect(await refusal(() => wallets.hold(callerOf(tenantId), exactly(1)))).toBe(empty);
    expect(await refusal(() => hold.extend(1))).toBe(empty);
    isAway = false;
    await wallets.renew();
    expect((await wallets.hold(callerOf(tenantId), exactly(1))).credits).toBe(1);
  });

  test('no request waits for a renewal when the last one got no answer', async () => {
    let renewals = 0;
    const wallets = walletsWith({
      renew: async () => {
        renewals += 1;
        throw new Error('away');
      },
    });
    await wallets.renew().catch(() => undefined);
    now += 110_000;
    expect(await refusal(() => wallets.hold(callerOf(tenantId), exactly(1)))).toBe(empty);
    expect(renewals).toBe(1);
  });

  test('a lease that others were given is not used any more', async () => {
    const [sleeper, other] = [walletsWith(), walletsWith()];
    const hold = await sleeper.hold(callerOf(tenantId), exactly(100));
    now += 61_000;
    await other.renew();
    now += 60_000;
    await other.renew();
    const taken = await other.hold(callerOf(tenantId), exactly(950));
    await sleeper.renew();
    expect(await refusal(() => sleeper.hold(callerOf(tenantId), exactly(1)))).toContain(
      'This account has 0 credits left',
    );
    await taken.settle(0);
    await hold.settle(0);
    await Promise.all([sleeper.returnAll(), other.returnAll()]);
    expect(await leased()).toBe(0);
  });

  test('a lease that is lost stays so over many renewals, and the next one counts', async () => {
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

test('credits that took long to go back, and failed to, are not forgotten', async () => {
  const lost = Promise.withResolvers<never>();
  let isLost = true;
  const wallets = walletsWith({
    returnCredits: (back) => (isLost ? lost.promise : store.ledger.returnCredits(back)),
  });
  await (await wallets.hold(callerOf(tenantId), exactly(100))).settle(0);
  await store.ledger.recall(`tenant:${tenantId}`, 'another');
  const answering = wallets.answerRecalls().catch(() => undefined);
  while (wallets.totals().leasedCredits > 0) await Bun.sleep(1);
  expect([wallets.spare(tenantId), wallets.spareOfAll(), await leased()]).toEqual([200, 200, 200]);
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

test('a clock that is set back keeps nobody’s credits on lease', async () => {
  const wallets = walletsWith();
  await (await wallets.hold(callerOf(tenantId), exactly(100))).settle(0);
  now -= 3_600_000;
  await wallets.renew();
  expect(await leased()).toBe(0);
});

describe('a clock that jumps ahead, or a machine that slept', () => {
  const dayMs = 86_400_000;

  test('refuses no request and ends no running one', async () => {
    const wallets = walletsWith();
    const hold = await wallets.hold(callerOf(tenantId), exactly(10));
    now += dayMs;
    expect(await hold.extend(5)).toBe(5);
    now += dayMs;
    const holding = [1, 2].map(() => wallets.hold(callerOf(tenantId), exactly(1)));
    expect((await Promise.all(holding)).map(({ credits }) => credits)).toEqual([1, 1]);
  });

  test('takes nobody’s credits away before all had time to renew', async () => {
    const [one, other, dead] = [walletsWith(), walletsWith(), walletsWith()];
    const hold = await one.hold(callerOf(tenantId), exactly(600));
    await dead.hold(callerOf(tenantId), exactly(300));
    now += dayMs;
    const all = () => other.hold(callerOf(tenantId), exactly(400));
    expect(await refusal(all)).toContain('This account has 100 credits left');
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

  test('takes nobody’s credits away when it happens in the middle of a renewal', async () => {
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

  test('leaves a dead process’s credits locked no longer, however often it happens', async () => {
    const [one, dead] = [walletsWith(), walletsWith()];
    await dead.hold(callerOf(tenantId), exactly(900));
    for (let sleeps = 0; sleeps < 4; sleeps += 1) {
      expect(await leased()).toBeGreaterThanOrEqual(900);
      now += dayMs;
      await one.renew();
    }
    expect(await leased()).toBe(0);
  });

  test('lets a request wait for the renewal, not for the chores after it', async () => {
    const wallets = walletsWith({ returnCredits: () => new Promise(() => undefined) });
    const idle = await wallets.hold(callerOf(tenantId), exactly(10));
    await idle.settle(0);
    now += dayMs;
    void wallets.renew();
    expect((await wallets.hold(callerOf(tenantId), exactly(1))).credits).toBe(1);
  });
});

describe('a request that arrives in one period and gets its turn in the next', () => {
  test('counts in the limit of the period that the log says', async () => {
    const wallets = walletsWith();
    const limited = { ...callerOf(tenantId), limitCredits: 100, limitReset: 'daily' as const };
    const arrivedAt = now;
    now += 86_400_000;
    const late = await wallets.hold(limited, exactly(80), arrivedAt);
    expect(late.keyAccount).toEndWith(new Date(arrivedAt).toISOString().slice(0, 10));
    expect((await wallets.hold(limited, exactly(80))).credits).toBe(80);
  });
});

describe('what a hold could grow to', () => {
  /** Wallets, and how often the store was asked. */
  function watched() {
    const seen = { asked: 0 };
    const lease: LedgerStore['lease'] = (amounts) => {
      seen.asked += 1;
      return isAway ? Promise.reject(new Error('away')) : store.ledger.lease(amounts);
    };
    return { wallets: walletsWith({ lease }), seen };
  }

  test('is all of its wallet that nobody holds, known for a while without asking', async () => {
    const { wallets, seen } = watched();
    await wallets.hold(callerOf(tenantId), exactly(100));
    const hold = await wallets.hold(callerOf(tenantId), exactly(50));
    expect(seen.asked).toBe(1);
    expect([await hold.maxCredits(900), seen.asked]).toEqual([900, 1]);
    now += 10_000;
    expect([await hold.maxCredits(900), seen.asked]).toEqual([900, 2]);
    now += 10_000;
    // What is set aside already is nobody else's, however long ago that was.
    expect([await hold.maxCredits(50), seen.asked]).toEqual([50, 2]);
  });

  test('is asked anew where what is known is too little: somebody may have paid', async () => {
    const { wallets, seen } = watched();
    const hold = await wallets.hold(callerOf(tenantId), exactly(50));
    await grant(500);
    expect([await hold.maxCredits(1_000), await hold.maxCredits(1_001)]).toEqual([1_000, 1_500]);
    expect([await hold.maxCredits(2_000), seen.asked]).toEqual([1_500, 3]);
    expect((await wallets.hold(callerOf(tenantId), exactly(1_450))).credits).toBe(1_450);
  });

  test('is not more than its key’s limit, and counts what others have on lease', async () => {
    const [{ wallets }, elsewhere] = [watched(), walletsWith()];
    await elsewhere.hold(callerOf(tenantId), exactly(8));
    const hold = await wallets.hold(callerOf(tenantId), exactly(40));
    expect(await hold.maxCredits(10_000)).toBe(1_000);
    const key = callerOf(tenantId, { keyId: `r-${tenantId}`, limitCredits: 300 });
    const limited = await wallets.hold(key, exactly(40));
    expect(await limited.maxCredits(10_000)).toBe(300);
  });

  test('is asked once for all who wait; a frozen store holds up none for long', async () => {
    let isFrozen = false;
    let asked = 0;
    const lease: LedgerStore['lease'] = (amounts) => {
      asked += 1;
      return isFrozen ? new Promise(() => {}) : store.ledger.lease(amounts);
    };
    const wallets = walletsWith({ lease });
    const hold = await wallets.hold(callerOf(tenantId), exactly(40));
    now += 10_000;
    isFrozen = true;
    const reaching = [hold.maxCredits(900), hold.maxCredits(10_000)];
    // The credits of this hold are at hand: it does not queue behind those who wait.
    const beside = await wallets.hold(callerOf(tenantId), exactly(1));
    expect([beside.credits, asked]).toEqual([1, 2]);
    expect(await Promise.all(reaching)).toEqual([999, 999]);
    expect([await hold.maxCredits(900), asked]).toEqual([999, 2]);
  });

  test('is what is at hand and what was last known, while the store is away', async () => {
    const { wallets } = watched();
    const hold = await wallets.hold(callerOf(tenantId), exactly(40));
    isAway = true;
    expect(await hold.maxCredits(10_000)).toBe(1_000);
  });
});

test('charges are owed until they are booked, or forgiven', async () => {
  const wallets = walletsWith();
  const hold = await wallets.hold(callerOf(tenantId), exactly(100));
  await hold.settle(40);
  // 100, and the whole holds in an eighth of the other 900.
  const settled = { leases: 1, leasedCredits: 200, heldCredits: 0, owedCredits: 40 };
  expect([wallets.totals(), wallets.spare(tenantId)]).toEqual([settled, 160]);
  const account = `tenant:${tenantId}`;
  wallets.booked([{ account, charge: 30, fromLease: { lease: 1, credits: 30 } }]);
  const booked = { ...settled, leasedCredits: 170, owedCredits: 10 };
  expect([wallets.totals(), wallets.spare(tenantId)]).toEqual([booked, 160]);
  wallets.cancelCharges([{ account, charge: 10 }]);
  expect([wallets.totals(), wallets.spare(tenantId)]).toEqual([{ ...booked, owedCredits: 0 }, 170]);
});

describe('credits that lie about', () => {
  test('go back when nobody has used them for a while, and are forgotten', async () => {
    let looks = 0;
    const pendingRecalls = async () => {
      looks += 1;
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
    // There is no account left for which others could want something.
    await wallets.answerRecalls();
    expect(looks).toBe(1);
    expect((await wallets.hold(callerOf(tenantId), exactly(1_000))).credits).toBe(1_000);
  });

  test('are asked for twice and no more where each trip takes long', async () => {
    const rich = walletsWith();
    await rich.hold(callerOf(tenantId), exactly(900));
    let trips = 0;
    const lease: LedgerStore['lease'] = (amounts) => {
      trips += 1;
      now += 1_500;
      return store.ledger.lease(amounts);
    };
    const slow = walletsWith({ lease });
    const refused = await refusal(() => slow.hold(callerOf(tenantId), exactly(700)));
    expect(refused).toContain('This account has 100 credits left');
    expect(trips).toBe(2);
  });

  test('are waited for where the machine stood still, and nobody could answer', async () => {
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

  test('go to another process that starves, and what is in use does not', async () => {
    const rich = walletsWith();
    await (await rich.hold(callerOf(tenantId), exactly(1_000))).settle(0);
    await rich.hold(callerOf(tenantId), exactly(300));
    const poor = walletsWith({}, () => rich.answerRecalls());
    const rest = await poor.hold(callerOf(tenantId), { requested: 1_000, minimum: 700 });
    expect(rest.credits).toBe(700);
  });

  test('are asked for again by those who gave them away while they asked for more', async () => {
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

describe('a key’s limit', () => {
  test('that is lowered while requests run lets them end, and nothing more begin', async () => {
    const wallets = walletsWith();
    const key = { keyId: `l-${tenantId}`, limitCredits: 500 };
    const hold = await wallets.hold(callerOf(tenantId, key), exactly(100));
    const lowered = callerOf(tenantId, { ...key, limitCredits: 120 });
    expect((await wallets.hold(lowered, { requested: 50, minimum: 1 })).credits).toBe(20);
    expect(await hold.settle(100)).toEqual({ wallet: 100, key: 100 });
    expect(await refusal(() => wallets.hold(lowered, exactly(1)))).toContain('This API key has 0');
    const raised = callerOf(tenantId, { ...key, limitCredits: 200 });
    expect((await wallets.hold(raised, exactly(80))).credits).toBe(80);
  });

  test('that is lowered to what was spent allows no more, whatever is on lease', async () => {
    const wallets = walletsWith();
    const key = { keyId: `s-${tenantId}`, limitCredits: 1_000 };
    await (await wallets.hold(callerOf(tenantId, key), exactly(100))).settle(100);
    const lowered = callerOf(tenantId, { ...key, limitCredits: 100 });
    expect(await refusal(() => wallets.hold(lowered, exactly(1)))).toContain('This API key has 0');
  });

  test('that is lowered leaves what it still allows, however late that comes back', async () => {
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

  test('begins anew at midnight, and what began before counts for the day before', async () => {
    now = Date.UTC(2031, 2, 31, 23, 59, 59, 999);
    const wallets = walletsWith();
    const caller = callerOf(tenantId, {
      keyId: `d-${tenantId}`,
      limitCredits: 100,
      limitReset: 'daily',
    });
    const late = await wallets.hold(caller, exactly(100));
    expect(await refusal(() => wallets.hold(caller, exactly(1)))).toContain('This API key has 0');
    now += 1;
    const early = await wallets.hold(caller, exactly(100));
    expect([late.keyAccount, early.keyAccount]).toEqual([
      `key:d-${tenantId}:2031-03-31`,
      `key:d-${tenantId}:2031-04-01`,
    ]);
    expect(await late.settle(100)).toEqual({ wallet: 100, key: 100 });
  });
});
