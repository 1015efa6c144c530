import { describe, expect, test } from 'bun:test';
import { walletOwner } from './owner.ts';
import { type Need, Purse } from './purse.ts';

const said = { granted: 0, lease: 1, outsideLease: 0, leasedElsewhere: 0, unanswered: 0 };

/** A purse whose store answers each order with the next of these grants, or is away. */
function purseWith(...grants: (number | 'away')[]) {
  const asked: number[] = [];
  /** The number of the lease that the store counts. */
  const store = { lease: 1 };
  const purse = new Purse(walletOwner('t'), async (asking, need) => {
    const anew = asking.inDoubt;
    const order = need.order();
    asked.push(order);
    if (anew) asking.leaseAnew();
    const granted = grants.shift() ?? 0;
    if (granted === 'away') {
      asking.doubt(asking.lease);
      throw new Error('away');
    }
    if (anew) store.lease += 1;
    asking.granted({ ...said, granted, lease: store.lease }, order);
  });
  return { purse, asked, store };
}

const taken = (credits: number) => ({ kind: 'taken', credits }) as const;

describe('a purse', () => {
  test('asks the store once and then gives from its lease without waiting', async () => {
    const { purse, asked } = purseWith(100);
    expect(await purse.take(30, 30)).toEqual(taken(30));
    expect(purse.take(70, 70)).toEqual(taken(70));
    expect(asked).toEqual([30]);
    expect(purse.free).toBe(0);
  });

  test('asks once for all who wait, and serves them in the order they came', async () => {
    const { purse, asked } = purseWith(0, 25);
    const first = purse.take(10, 10);
    const rest = [purse.take(10, 10), purse.take(10, 10), purse.take(10, 10)];
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
    const purse = new Purse(walletOwner('t'), async (asking, need) => {
      const order = need.order();
      if (grants.length === 0) await trip.promise;
      asking.granted({ ...said, granted: grants.shift() ?? 0 }, order);
    });
    await purse.take(100, 100);
    const waiting = [purse.take(50, 10), purse.take(20, 10)];
    purse.release(100);
    trip.resolve();
    expect(await Promise.all(waiting)).toEqual([taken(50), taken(20)]);
    expect(purse.free).toBe(30);
  });

  test('is not idle while the store is asked, even if the request has given up', async () => {
    const trip = Promise.withResolvers<void>();
    const refill = async (asking: Purse, need: Need) => {
      const order = need.order();
      await trip.promise;
      asking.granted({ ...said, granted: order }, order);
    };
    const purse = new Purse(walletOwner('t'), refill, 1);
    expect(await purse.take(10, 10)).toEqual({ kind: 'unavailable' });
    expect(purse.idle).toBe(false);
    trip.resolve();
    await Bun.sleep(0);
    // What came for nobody is there to be given back.
    expect([purse.idle, purse.free]).toEqual([true, 10]);
  });

  test('gives nothing to a later request while an earlier one waits', async () => {
    const grants = [15, 5];
    const purse = new Purse(walletOwner('t'), async (asking, need) => {
      const asked = need.order();
      await Bun.sleep(0);
      asking.granted({ ...said, granted: grants.shift() ?? 0 }, asked);
    });
    await purse.take(10, 10);
    const [large, small] = [purse.take(10, 10), purse.take(5, 5)];
    expect([await large, await small]).toEqual([taken(10), { kind: 'short', available: 0 }]);
  });

  test('asks for those who came meanwhile when it has to ask again', async () => {
    const asked: number[] = [];
    const trips = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const purse = new Purse(walletOwner('t'), async (_, need) => {
      for (const { promise } of trips) {
        asked.push(need.order());
        await promise;
      }
    });
    const first = purse.take(10, 10);
    const second = purse.take(20, 20);
    trips[0].resolve();
    await Bun.sleep(0);
    const third = purse.take(40, 40);
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
      const refill = (asking: Purse, need: Need) => {
        const granted = grants.shift();
        if (granted !== undefined) asking.granted({ ...said, granted }, need.order());
        return grants.length > 0 ? Promise.resolve() : new Promise<void>(() => {});
      };
      return new Purse(walletOwner('t'), refill, 20);
    };

    test('tells those who have waited long that there is too little', async () => {
      const purse = endless(7);
      expect(await purse.take(10, 10)).toEqual({ kind: 'short', available: 7 });
      // The credits are not lost: a request that needs less gets them.
      expect(purse.take(7, 7)).toEqual(taken(7));
    });

    test('gives them what there is, if that is of use', async () => {
      expect(await endless(7).take(10, 5)).toEqual(taken(7));
    });

    test('says that the store is away if it has not said that there is too little', async () => {
      expect(await endless().take(10, 10)).toEqual({ kind: 'unavailable' });
    });

    test('refuses nobody for a shortage from before the store gave credits again', async () => {
      const purse = endless(0, 20);
      expect(await purse.take(10, 10)).toEqual({ kind: 'short', available: 0 });
      expect(await purse.take(20, 20)).toEqual(taken(20));
      expect(await purse.take(1, 1)).toEqual({ kind: 'unavailable' });
    });
  });

  test.each([
    [25, 5],
    [20, 0],
  ])('gives what came to those it is enough for, of %i all but %i', async (granted, rest) => {
    const seen: number[] = [];
    const purse = new Purse(walletOwner('t'), async (asking, need) => {
      await Bun.sleep(0);
      asking.granted({ ...said, granted }, need.order());
      // The rest goes to a process that starves.
      seen.push(asking.held, asking.surrender().credits);
    });
    const answers = await Promise.all([purse.take(10, 10), purse.take(10, 10), purse.take(10, 10)]);
    expect(answers).toEqual([taken(10), taken(10), { kind: 'short', available: 0 }]);
    expect(seen).toEqual([20, rest]);
  });

  test('gives what there is when that is enough to be of use', async () => {
    const { purse } = purseWith(6);
    expect(await purse.take(10, 5)).toEqual(taken(6));
    expect(await purseWith(1).purse.take(10, 1)).toEqual(taken(1));
    expect(await purseWith(0).purse.take(10, 0)).toEqual({ kind: 'short', available: 0 });
  });

  test('says that the store is away, and goes on within what it has', async () => {
    const { purse } = purseWith(20, 'away');
    await purse.take(10, 10);
    expect(await purse.take(11, 11)).toEqual({ kind: 'unavailable' });
    expect(purse.take(10, 10)).toEqual(taken(10));
  });

  test('needs no store for what costs nothing, even after its lease was lost', async () => {
    const { purse, asked } = purseWith(10);
    await purse.take(10, 10);
    purse.lose();
    expect(purse.take(0, 0)).toEqual(taken(0));
    expect(asked).toEqual([10]);
  });

  test('keeps what is owed until it is booked', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.settle(60, 45);
    expect([purse.free, purse.held, purse.idle]).toEqual([55, 0, false]);
    purse.booked(45, { lease: purse.lease, credits: 45 });
    expect([purse.free, purse.leased, purse.idle]).toEqual([55, 55, true]);
  });

  test('has back what was owed and is forgiven', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.settle(60, 45);
    purse.forgive(45);
    expect([purse.free, purse.owed, purse.idle]).toEqual([100, 0, true]);
  });

  test('gives up only what nobody uses', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.settle(60, 45);
    expect(purse.surrender()).toEqual({ lease: 1, credits: 55 });
    expect(purse.surrender()).toEqual({ lease: 1, credits: 0 });
    expect(purse.leased).toBe(45);
  });

  test('releasing more than is held is a programming error', async () => {
    const { purse } = purseWith(10);
    await purse.take(10, 10);
    expect(() => purse.release(11)).toThrow('More was released than was held.');
  });

  test('wanting less than the least is a programming error', () => {
    expect(() => purseWith().purse.take(1, 2)).toThrow();
  });
});

describe('a purse that lost its lease', () => {
  test('leases anew what runs on before it gives more', async () => {
    const { purse, asked, store } = purseWith(100, 70);
    await purse.take(60, 60);
    purse.lose();
    store.lease = 2;
    expect(await purse.take(10, 10)).toEqual(taken(10));
    expect(asked).toEqual([60, 70]);
  });

  test('ignores a late answer about the lost lease', async () => {
    const { purse } = purseWith(100, 50);
    await purse.take(60, 60);
    purse.lose();
    expect(await purse.take(10, 10)).toEqual({ kind: 'short', available: 0 });
    expect([purse.leased, purse.inDoubt]).toEqual([0, true]);
  });

  test('has nothing to give up while requests run on', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.lose();
    expect(purse.surrender()).toEqual({ lease: 1, credits: 0 });
  });

  test('counts only the part of a booking that was taken from the new lease', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.settle(60, 60);
    purse.lose();
    purse.granted({ ...said, granted: 40, lease: 9 }, 80);
    // The other 20 were free in the account.
    purse.booked(60, { lease: 9, credits: 40 });
    expect([purse.leased, purse.owed, purse.free]).toEqual([0, 0, 0]);
  });

  test('does not count a booking of the old lease against the new one', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.settle(60, 60);
    purse.lose();
    purse.granted({ ...said, granted: 80, lease: 9 }, 80);
    purse.booked(60, { lease: 1, credits: 60 });
    expect([purse.leased, purse.owed, purse.free]).toEqual([80, 0, 80]);
  });

  test('counts a booking of a lease that it has not heard of yet', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.settle(60, 60);
    purse.booked(60, { lease: 9, credits: 60 });
    purse.granted({ ...said, granted: 80, lease: 9 }, 80);
    expect([purse.leased, purse.owed]).toEqual([20, 0]);
  });
});

describe('a purse in doubt', () => {
  test('asks for everything it has, and is sure again', async () => {
    const { purse, asked } = purseWith(100, 'away', 100);
    await purse.take(60, 60);
    await purse.take(50, 50);
    expect(purse.inDoubt).toBe(true);
    await purse.endDoubt();
    expect(purse.inDoubt).toBe(false);
    expect([purse.leased, purse.held]).toEqual([100, 60]);
    expect(asked).toEqual([60, 10, 100]);
  });

  test('asks for what is missing, too, where somebody needs more than it has', async () => {
    const { purse, asked } = purseWith(100, 150);
    await purse.take(100, 100);
    purse.release(100);
    purse.doubt(1);
    expect(await purse.take(150, 150)).toEqual(taken(150));
    expect(asked).toEqual([100, 150]);
  });

  test('has on lease what it gives away while the store takes long to answer', async () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const refill = async (asking: Purse, need: Need) => {
      const anew = asking.inDoubt;
      const granted = need.order();
      if (anew) asking.leaseAnew();
      if (anew) await answered;
      asking.granted({ ...said, granted, lease: asking.lease + 1 }, granted);
    };
    const purse = new Purse(walletOwner('t'), refill, 20);
    await purse.take(100, 100);
    purse.release(100);
    purse.doubt(1);
    await purse.endDoubt();
    expect(purse.take(70, 70)).toEqual(taken(70));
    answer();
    while (purse.lease === 1) await Bun.sleep(1);
    expect(purse.free).toBe(30);
  });

  test('counts against its new lease what was booked from an unknown one meanwhile', async () => {
    const purse: Purse = new Purse(walletOwner('t'), async (asking, need) => {
      const anew = asking.inDoubt;
      const granted = need.order();
      if (anew) asking.leaseAnew();
      // The store took it from the new lease, and the answer about that comes first.
      if (anew) purse.booked(60, null);
      asking.granted({ ...said, granted, lease: asking.lease + 1 }, granted);
    });
    await purse.take(100, 100);
    purse.settle(100, 60);
    purse.doubt(1);
    await purse.endDoubt();
    expect([purse.free, purse.inDoubt]).toEqual([40, true]);
  });

  test('is one that had a booking from an unknown lease', async () => {
    const { purse } = purseWith(100, 70);
    await purse.take(60, 60);
    purse.settle(60, 30);
    purse.booked(30, null);
    expect([purse.leased, purse.inDoubt]).toEqual([70, true]);
    // Its new lease is whole: the booking was before it.
    await purse.endDoubt();
    expect([purse.leased, purse.inDoubt]).toEqual([70, false]);
  });

  test('is not one that had an answer about a lease that is over', async () => {
    const { purse } = purseWith(100);
    await purse.take(60, 60);
    purse.doubt(0);
    expect(purse.inDoubt).toBe(false);
  });
});
