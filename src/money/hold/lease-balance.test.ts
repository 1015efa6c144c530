import { describe, expect, test } from 'bun:test';
import { walletOwner } from '../ledger.ts';
import { type CreditNeed, LeaseBalance } from './lease-balance.ts';

const said = { granted: 0, lease: 1, outsideLease: 0, leasedElsewhere: 0, unanswered: 0 };

/** A purse whose store answers each order with the next of these grants, or is away. */
function purseWith(...grants: (number | 'away')[]) {
  const asked: number[] = [];
  /** The number of the lease that the store counts. */
  const store = { lease: 1 };
  const balance = new LeaseBalance(walletOwner('t'), async (asking, need) => {
    const startNew = asking.inDoubt;
    const amounts = need.creditsToRequest();
    asked.push(amounts);
    if (startNew) asking.startNewLease();
    const granted = grants.shift() ?? 0;
    if (granted === 'away') {
      asking.markInDoubt(asking.lease);
      throw new Error('away');
    }
    if (startNew) store.lease += 1;
    asking.granted({ ...said, granted, lease: store.lease }, amounts);
  });
  return { balance, asked, store };
}

const taken = (credits: number) => ({ kind: 'taken', credits }) as const;

describe('a purse', () => {
  test('asks the store once and then gives from its lease without waiting', async () => {
    const { balance, asked } = purseWith(100);
    expect(await balance.take(30, 30)).toEqual(taken(30));
    expect(balance.take(70, 70)).toEqual(taken(70));
    expect(asked).toEqual([30]);
    expect(balance.free).toBe(0);
  });

  test('asks once for all who wait, and serves them in the order they came', async () => {
    const { balance, asked } = purseWith(0, 25);
    const first = balance.take(10, 10);
    const rest = [balance.take(10, 10), balance.take(10, 10), balance.take(10, 10)];
    expect(await first).toEqual({ kind: 'short', available: 0 });
    expect(await Promise.all(rest)).toEqual([
      taken(10),
      taken(10),
      { kind: 'short', available: 5 },
    ]);
    expect(asked).toEqual([10, 30]);
  });

  test('gives what is wanted and no more, where others gave theirs back meanwhile', async () => {
    const trip = Promise.withResolvers<void>();
    const grants = [100];
    const balance = new LeaseBalance(walletOwner('t'), async (asking, need) => {
      const amounts = need.creditsToRequest();
      if (grants.length === 0) await trip.promise;
      asking.granted({ ...said, granted: grants.shift() ?? 0 }, amounts);
    });
    await balance.take(100, 100);
    const waiting = [balance.take(50, 10), balance.take(20, 10)];
    balance.release(100);
    trip.resolve();
    expect(await Promise.all(waiting)).toEqual([taken(50), taken(20)]);
    expect(balance.free).toBe(30);
  });

  test('is not idle while the store is asked, even if the request has given up', async () => {
    const trip = Promise.withResolvers<void>();
    const refill = async (asking: LeaseBalance, need: CreditNeed) => {
      const amounts = need.creditsToRequest();
      await trip.promise;
      asking.granted({ ...said, granted: amounts }, amounts);
    };
    const balance = new LeaseBalance(walletOwner('t'), refill, 1);
    expect(await balance.take(10, 10)).toEqual({ kind: 'unavailable' });
    expect(balance.idle).toBe(false);
    trip.resolve();
    await Bun.sleep(0);
    // What came for nobody is there to be given back.
    expect([balance.idle, balance.free]).toEqual([true, 10]);
  });

  test('gives nothing to a later request while an earlier one waits', async () => {
    const grants = [15, 5];
    const balance = new LeaseBalance(walletOwner('t'), async (asking, need) => {
      const asked = need.creditsToRequest();
      await Bun.sleep(0);
      asking.granted({ ...said, granted: grants.shift() ?? 0 }, asked);
    });
    await balance.take(10, 10);
    const [large, small] = [balance.take(10, 10), balance.take(5, 5)];
    expect([await large, await small]).toEqual([taken(10), { kind: 'short', available: 0 }]);
  });

  test('asks for those who came meanwhile when it has to ask again', async () => {
    const asked: number[] = [];
    const trips = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const balance = new LeaseBalance(walletOwner('t'), async (_, need) => {
      for (const { promise } of trips) {
        asked.push(need.creditsToRequest());
        await promise;
      }
    });
    const first = balance.take(10, 10);
    const second = balance.take(20, 20);
    trips[0].resolve();
    await Bun.sleep(0);
    const third = balance.take(40, 40);
    trips[1].resolve();
    const short = { kind: 'short', available: 0 } as const;
    expect(await Promise.all([first, second])).toEqual([short, short]);
    // It came after the last trip had begun, so it gets a trip of its own.
    expect(await third).toEqual(short);
    expect(asked).toEqual([10, 30, 40, 40]);
  });

  describe('whose store never finishes its answer', () => {
    /** The store grants these, one trip each, and the last trip never ends. */
    const endless = (...grants: number[]) => {
      const refill = (asking: LeaseBalance, need: CreditNeed) => {
        const granted = grants.shift();
        if (granted !== undefined) asking.granted({ ...said, granted }, need.creditsToRequest());
        return grants.length > 0 ? Promise.resolve() : new Promise<void>(() => {});
      };
      return new LeaseBalance(walletOwner('t'), refill, 20);
    };

    test('tells those who have waited long that there is too little', async () => {
      const balance = endless(7);
      expect(await balance.take(10, 10)).toEqual({ kind: 'short', available: 7 });
      // The credits are not lost: a request that needs less gets them.
      expect(balance.take(7, 7)).toEqual(taken(7));
    });

    test('gives them what there is, if that is of use', async () => {
      expect(await endless(7).take(10, 5)).toEqual(taken(7));
    });

    test('says that the store is away if it has not said that there is too little', async () => {
      expect(await endless().take(10, 10)).toEqual({ kind: 'unavailable' });
    });

    test('refuses nobody for a shortage from before the store gave credits again', async () => {
      const balance = endless(0, 20);
      expect(await balance.take(10, 10)).toEqual({ kind: 'short', available: 0 });
      expect(await balance.take(20, 20)).toEqual(taken(20));
      expect(await balance.take(1, 1)).toEqual({ kind: 'unavailable' });
    });
  });

  test.each([
    [25, 5],
    [20, 0],
  ])('gives what came to those it is enough for, of %i all but %i', async (granted, rest) => {
    const seen: number[] = [];
    const balance = new LeaseBalance(walletOwner('t'), async (asking, need) => {
      await Bun.sleep(0);
      asking.granted({ ...said, granted }, need.creditsToRequest());
      // The rest goes to a process that starves.
      seen.push(asking.held, asking.returnFree().credits);
    });
    const answers = await Promise.all([
      balance.take(10, 10),
      balance.take(10, 10),
      balance.take(10, 10),
    ]);
    expect(answers).toEqual([taken(10), taken(10), { kind: 'short', available: 0 }]);
    expect(seen).toEqual([20, rest]);
  });

  test('gives what there is when that is enough to be of use', async () => {
    const { balance } = purseWith(6);
    expect(await balance.take(10, 5)).toEqual(taken(6));
    expect(await purseWith(1).balance.take(10, 1)).toEqual(taken(1));
    expect(await purseWith(0).balance.take(10, 0)).toEqual({ kind: 'short', available: 0 });
  });

  test('says that the store is away, and goes on within what it has', async () => {
    const { balance } = purseWith(20, 'away');
    await balance.take(10, 10);
    expect(await balance.take(11, 11)).toEqual({ kind: 'unavailable' });
    expect(balance.take(10, 10)).toEqual(taken(10));
  });

  test('needs no store for what costs nothing, even after its lease was lost', async () => {
    const { balance, asked } = purseWith(10);
    await balance.take(10, 10);
    balance.markLost();
    expect(balance.take(0, 0)).toEqual(taken(0));
    expect(asked).toEqual([10]);
  });

  test('keeps what is owed until it is booked', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.settle(60, 45);
    expect([balance.free, balance.held, balance.idle]).toEqual([55, 0, false]);
    balance.booked(45, { lease: balance.lease, credits: 45 });
    expect([balance.free, balance.leased, balance.idle]).toEqual([55, 55, true]);
  });

  test('has back what was owed and is forgiven', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.settle(60, 45);
    balance.cancelCharge(45);
    expect([balance.free, balance.owed, balance.idle]).toEqual([100, 0, true]);
  });

  test('gives up only what nobody uses', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.settle(60, 45);
    expect(balance.returnFree()).toEqual({ lease: 1, credits: 55 });
    expect(balance.returnFree()).toEqual({ lease: 1, credits: 0 });
    expect(balance.leased).toBe(45);
  });

  test('releasing more than is held is a programming error', async () => {
    const { balance } = purseWith(10);
    await balance.take(10, 10);
    expect(() => balance.release(11)).toThrow('More was released than was held.');
  });

  test('wanting less than the least is a programming error', () => {
    expect(() => purseWith().balance.take(1, 2)).toThrow();
  });
});

describe('a purse that lost its lease', () => {
  test('leases anew what runs on before it gives more', async () => {
    const { balance, asked, store } = purseWith(100, 70);
    await balance.take(60, 60);
    balance.markLost();
    store.lease = 2;
    expect(await balance.take(10, 10)).toEqual(taken(10));
    expect(asked).toEqual([60, 70]);
  });

  test('ignores a late answer about the lost lease', async () => {
    const { balance } = purseWith(100, 50);
    await balance.take(60, 60);
    balance.markLost();
    expect(await balance.take(10, 10)).toEqual({ kind: 'short', available: 0 });
    expect([balance.leased, balance.inDoubt]).toEqual([0, true]);
  });

  test('has nothing to give up while requests run on', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.markLost();
    expect(balance.returnFree()).toEqual({ lease: 1, credits: 0 });
  });

  test('counts only the part of a booking that was taken from the new lease', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.settle(60, 60);
    balance.markLost();
    balance.granted({ ...said, granted: 40, lease: 9 }, 80);
    // The other 20 were free in the account.
    balance.booked(60, { lease: 9, credits: 40 });
    expect([balance.leased, balance.owed, balance.free]).toEqual([0, 0, 0]);
  });

  test('does not count a booking of the old lease against the new one', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.settle(60, 60);
    balance.markLost();
    balance.granted({ ...said, granted: 80, lease: 9 }, 80);
    balance.booked(60, { lease: 1, credits: 60 });
    expect([balance.leased, balance.owed, balance.free]).toEqual([80, 0, 80]);
  });

  test('counts a booking of a lease that it has not heard of yet', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.settle(60, 60);
    balance.booked(60, { lease: 9, credits: 60 });
    balance.granted({ ...said, granted: 80, lease: 9 }, 80);
    expect([balance.leased, balance.owed]).toEqual([20, 0]);
  });
});

describe('a purse in doubt', () => {
  test('asks for everything it has, and is sure again', async () => {
    const { balance, asked } = purseWith(100, 'away', 100);
    await balance.take(60, 60);
    await balance.take(50, 50);
    expect(balance.inDoubt).toBe(true);
    await balance.resolveDoubt();
    expect(balance.inDoubt).toBe(false);
    expect([balance.leased, balance.held]).toEqual([100, 60]);
    expect(asked).toEqual([60, 10, 100]);
  });

  test('asks for what is missing, too, where somebody needs more than it has', async () => {
    const { balance, asked } = purseWith(100, 150);
    await balance.take(100, 100);
    balance.release(100);
    balance.markInDoubt(1);
    expect(await balance.take(150, 150)).toEqual(taken(150));
    expect(asked).toEqual([100, 150]);
  });

  test('has on lease what it gives away while the store takes long to answer', async () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const refill = async (asking: LeaseBalance, need: CreditNeed) => {
      const startNew = asking.inDoubt;
      const granted = need.creditsToRequest();
      if (startNew) asking.startNewLease();
      if (startNew) await answered;
      asking.granted({ ...said, granted, lease: asking.lease + 1 }, granted);
    };
    const balance = new LeaseBalance(walletOwner('t'), refill, 20);
    await balance.take(100, 100);
    balance.release(100);
    balance.markInDoubt(1);
    await balance.resolveDoubt();
    expect(balance.take(70, 70)).toEqual(taken(70));
    answer();
    while (balance.lease === 1) await Bun.sleep(1);
    expect(balance.free).toBe(30);
  });

  test('counts against its new lease what was booked from an unknown one meanwhile', async () => {
    const balance: LeaseBalance = new LeaseBalance(walletOwner('t'), async (asking, need) => {
      const startNew = asking.inDoubt;
      const granted = need.creditsToRequest();
      if (startNew) asking.startNewLease();
      // The store took it from the new lease, and the answer about that comes first.
      if (startNew) balance.booked(60, null);
      asking.granted({ ...said, granted, lease: asking.lease + 1 }, granted);
    });
    await balance.take(100, 100);
    balance.settle(100, 60);
    balance.markInDoubt(1);
    await balance.resolveDoubt();
    expect([balance.free, balance.inDoubt]).toEqual([40, true]);
  });

  test('is one that had a booking from an unknown lease', async () => {
    const { balance } = purseWith(100, 70);
    await balance.take(60, 60);
    balance.settle(60, 30);
    balance.booked(30, null);
    expect([balance.leased, balance.inDoubt]).toEqual([70, true]);
    // Its new lease is whole: the booking was before it.
    await balance.resolveDoubt();
    expect([balance.leased, balance.inDoubt]).toEqual([70, false]);
  });

  test('is not one that had an answer about a lease that is over', async () => {
    const { balance } = purseWith(100);
    await balance.take(60, 60);
    balance.markInDoubt(0);
    expect(balance.inDoubt).toBe(false);
  });
});
