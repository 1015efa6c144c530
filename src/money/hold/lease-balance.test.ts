import { describe, expect, test } from 'bun:test';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { walletOwner } from '../ledger.ts';
import { type CreditNeed, LeaseBalance } from './lease-balance.ts';

const none = { leasedElsewhere: 0, unanswered: 0, unansweredUntil: null };
const leaseResult = { granted: 0, lease: 1, outsideLease: 0, ...none };

/** A lease balance whose store answers each request with the next of these grants, or is down. */
function balanceWith(...grants: (number | 'unavailable')[]) {
  const requests: number[] = [];
  /** The number of the lease in the store. */
  const store = { lease: 1 };
  const balance = new LeaseBalance(walletOwner('t'), async (target, need) => {
    const startNew = target.inDoubt;
    const amounts = need.creditsToRequest();
    requests.push(amounts);
    if (startNew) target.startNewLease();
    const granted = grants.shift() ?? 0;
    if (granted === 'unavailable') {
      target.markInDoubt(target.lease);
      throw new Error('unavailable');
    }
    if (startNew) store.lease += 1;
    target.granted({ ...leaseResult, granted, lease: store.lease }, amounts);
  });
  return { balance, requests, store };
}

const taken = (credits: number) => ({ kind: 'taken', credits }) as const;

describe('LeaseBalance', () => {
  test('calls the store once and then grants from its lease synchronously', async () => {
    const { balance, requests } = balanceWith(100);
    expect(await balance.take(30, 30)).toEqual(taken(30));
    expect(balance.take(70, 70)).toEqual(taken(70));
    expect(requests).toEqual([30]);
    expect(balance.free).toBe(0);
  });

  test('calls the store once for all waiting requests and serves them in order', async () => {
    const { balance, requests } = balanceWith(0, 25);
    const first = balance.take(10, 10);
    const rest = [balance.take(10, 10), balance.take(10, 10), balance.take(10, 10)];
    expect(await first).toEqual({ kind: 'short', available: 0 });
    expect(await Promise.all(rest)).toEqual([
      taken(10),
      taken(10),
      { kind: 'short', available: 5 },
    ]);
    expect(requests).toEqual([10, 30]);
  });

  test('grants no more than requested if credits are released in the meantime', async () => {
    const call = Promise.withResolvers<void>();
    const grants = [100];
    const balance = new LeaseBalance(walletOwner('t'), async (target, need) => {
      const amounts = need.creditsToRequest();
      if (grants.length === 0) await call.promise;
      target.granted({ ...leaseResult, granted: grants.shift() ?? 0 }, amounts);
    });
    await balance.take(100, 100);
    const waiting = [balance.take(50, 10), balance.take(20, 10)];
    balance.release(100);
    call.resolve();
    expect(await Promise.all(waiting)).toEqual([taken(50), taken(20)]);
    expect(balance.free).toBe(30);
  });

  test('is not idle during a call to the store, even if the request timed out', async () => {
    const call = Promise.withResolvers<void>();
    const refill = async (target: LeaseBalance, need: CreditNeed) => {
      const amounts = need.creditsToRequest();
      await call.promise;
      target.granted({ ...leaseResult, granted: amounts }, amounts);
    };
    const balance = new LeaseBalance(walletOwner('t'), refill, 1);
    expect(await balance.take(10, 10)).toEqual({ kind: 'unavailable' });
    expect(balance.idle).toBe(false);
    call.resolve();
    await Bun.sleep(0);
    // Nobody waits for the granted credits anymore, so they are free.
    expect([balance.idle, balance.free]).toEqual([true, 10]);
  });

  test('does not serve a later request before an earlier one', async () => {
    const grants = [15, 5];
    const balance = new LeaseBalance(walletOwner('t'), async (target, need) => {
      const requests = need.creditsToRequest();
      await Bun.sleep(0);
      target.granted({ ...leaseResult, granted: grants.shift() ?? 0 }, requests);
    });
    await balance.take(10, 10);
    const [large, small] = [balance.take(10, 10), balance.take(5, 5)];
    expect([await large, await small]).toEqual([taken(10), { kind: 'short', available: 0 }]);
  });

  test('includes requests that arrived in the meantime when it calls the store again', async () => {
    const requests: number[] = [];
    const calls = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const balance = new LeaseBalance(walletOwner('t'), async (_, need) => {
      for (const { promise } of calls) {
        requests.push(need.creditsToRequest());
        await promise;
      }
    });
    const first = balance.take(10, 10);
    const second = balance.take(20, 20);
    calls[0].resolve();
    await Bun.sleep(0);
    const third = balance.take(40, 40);
    calls[1].resolve();
    const short = { kind: 'short', available: 0 } as const;
    expect(await Promise.all([first, second])).toEqual([short, short]);
    // It arrived after the last call had started, so it gets its own call.
    expect(await third).toEqual(short);
    expect(requests).toEqual([10, 30, 40, 40]);
  });

  describe('with a store that hangs', () => {
    /** A balance whose store grants these amounts, one per call. The last call never ends. */
    const endless = (...grants: number[]) => {
      const refill = (target: LeaseBalance, need: CreditNeed) => {
        const granted = grants.shift();
        if (granted !== undefined)
          target.granted({ ...leaseResult, granted }, need.creditsToRequest());
        return grants.length > 0 ? Promise.resolve() : new Promise<void>(() => {});
      };
      return new LeaseBalance(walletOwner('t'), refill, 20);
    };

    test('reports a shortage after a long wait', async () => {
      const balance = endless(7);
      expect(await balance.take(10, 10)).toEqual({ kind: 'short', available: 7 });
      // A request that needs less still gets the credits.
      expect(balance.take(7, 7)).toEqual(taken(7));
    });

    test('grants what is left if that is at least the minimum', async () => {
      expect(await endless(7).take(10, 5)).toEqual(taken(7));
    });

    test('reports an unavailable store if no shortage is known', async () => {
      expect(await endless().take(10, 10)).toEqual({ kind: 'unavailable' });
    });

    test('forgets a shortage once the store grants credits again', async () => {
      const balance = endless(0, 20);
      expect(await balance.take(10, 10)).toEqual({ kind: 'short', available: 0 });
      expect(await balance.take(20, 20)).toEqual(taken(20));
      expect(await balance.take(1, 1)).toEqual({ kind: 'unavailable' });
    });
  });

  test.each([
    [25, 5],
    [20, 0],
  ])(
    'grants %i credits at once to the requests that they cover and leaves %i',
    async (granted, rest) => {
      const seen: number[] = [];
      const balance = new LeaseBalance(walletOwner('t'), async (target, need) => {
        await Bun.sleep(0);
        target.granted({ ...leaseResult, granted }, need.creditsToRequest());
        // The rest goes to another process.
        seen.push(target.held, target.returnFree().credits);
      });
      const answers = await Promise.all([
        balance.take(10, 10),
        balance.take(10, 10),
        balance.take(10, 10),
      ]);
      expect(answers).toEqual([taken(10), taken(10), { kind: 'short', available: 0 }]);
      expect(seen).toEqual([20, rest]);
    },
  );

  test('grants fewer credits than requested if they reach the minimum', async () => {
    const { balance } = balanceWith(6);
    expect(await balance.take(10, 5)).toEqual(taken(6));
    expect(await balanceWith(1).balance.take(10, 1)).toEqual(taken(1));
    expect(await balanceWith(0).balance.take(10, 0)).toEqual({ kind: 'short', available: 0 });
  });

  test('reports an unavailable store and keeps granting from its lease', async () => {
    const { balance } = balanceWith(20, 'unavailable');
    await balance.take(10, 10);
    expect(await balance.take(11, 11)).toEqual({ kind: 'unavailable' });
    expect(balance.take(10, 10)).toEqual(taken(10));
  });

  test('grants 0 credits without the store, even after its lease was lost', async () => {
    const { balance, requests } = balanceWith(10);
    await balance.take(10, 10);
    balance.markLost();
    expect(balance.take(0, 0)).toEqual(taken(0));
    expect(requests).toEqual([10]);
  });

  test('keeps owed credits until they are committed', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.settle(60, 45);
    expect([balance.free, balance.held, balance.idle]).toEqual([55, 0, false]);
    balance.booked(45, { lease: balance.lease, credits: 45 });
    expect([balance.free, balance.leased, balance.idle]).toEqual([55, 55, true]);
  });

  test('frees owed credits when their charge is canceled', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.settle(60, 45);
    balance.cancelCharge(45);
    expect([balance.free, balance.owed, balance.idle]).toEqual([100, 0, true]);
  });

  test('returns only free credits', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.settle(60, 45);
    expect(balance.returnFree()).toEqual({ lease: 1, credits: 55 });
    expect(balance.returnFree()).toEqual({ lease: 1, credits: 0 });
    expect(balance.leased).toBe(45);
  });

  test('throws if more credits are released than held', async () => {
    const { balance } = balanceWith(10);
    await balance.take(10, 10);
    expect(() => balance.release(11)).toThrow('Released more credits than were held.');
  });

  test('throws if fewer credits are requested than the minimum', () => {
    expect(() => balanceWith().balance.take(1, 2)).toThrow();
  });
});

describe('LeaseBalance with a lost lease', () => {
  test('leases credits of running requests again before it grants more', async () => {
    const { balance, requests, store } = balanceWith(100, 70);
    await balance.take(60, 60);
    balance.markLost();
    store.lease = 2;
    expect(await balance.take(10, 10)).toEqual(taken(10));
    expect(requests).toEqual([60, 70]);
  });

  test('ignores a late result about the lost lease', async () => {
    const { balance } = balanceWith(100, 50);
    await balance.take(60, 60);
    balance.markLost();
    expect(await balance.take(10, 10)).toEqual({ kind: 'short', available: 0 });
    expect([balance.leased, balance.inDoubt]).toEqual([0, true]);
  });

  test('has no free credits while requests run', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.markLost();
    expect(balance.returnFree()).toEqual({ lease: 1, credits: 0 });
  });

  test('deducts only the part of a commit that came from the new lease', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.settle(60, 60);
    balance.markLost();
    balance.granted({ ...leaseResult, granted: 40, lease: 9 }, 80);
    // The other 20 were free in the account.
    balance.booked(60, { lease: 9, credits: 40 });
    expect([balance.leased, balance.owed, balance.free]).toEqual([0, 0, 0]);
  });

  test('does not deduct a commit of the old lease from the new one', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.settle(60, 60);
    balance.markLost();
    balance.granted({ ...leaseResult, granted: 80, lease: 9 }, 80);
    balance.booked(60, { lease: 1, credits: 60 });
    expect([balance.leased, balance.owed, balance.free]).toEqual([80, 0, 80]);
  });

  test('deducts a commit from a lease whose result has not arrived yet', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.settle(60, 60);
    balance.booked(60, { lease: 9, credits: 60 });
    balance.granted({ ...leaseResult, granted: 80, lease: 9 }, 80);
    expect([balance.leased, balance.owed]).toEqual([20, 0]);
  });
});

describe('LeaseBalance with a lease in doubt', () => {
  test('leases all its credits again and is no longer in doubt', async () => {
    const { balance, requests } = balanceWith(100, 'unavailable', 100);
    await balance.take(60, 60);
    await balance.take(50, 50);
    expect(balance.inDoubt).toBe(true);
    await balance.replaceIfInDoubt();
    expect(balance.inDoubt).toBe(false);
    expect([balance.leased, balance.held]).toEqual([100, 60]);
    expect(requests).toEqual([60, 10, 100]);
  });

  test('includes missing credits when it leases all its credits again', async () => {
    const { balance, requests } = balanceWith(100, 150);
    await balance.take(100, 100);
    balance.release(100);
    balance.markInDoubt(1);
    expect(await balance.take(150, 150)).toEqual(taken(150));
    expect(requests).toEqual([100, 150]);
  });

  test('counts credits granted during a slow call against the new lease', async () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const refill = async (target: LeaseBalance, need: CreditNeed) => {
      const startNew = target.inDoubt;
      const granted = need.creditsToRequest();
      if (startNew) target.startNewLease();
      if (startNew) await answered;
      target.granted({ ...leaseResult, granted, lease: target.lease + 1 }, granted);
    };
    const balance = new LeaseBalance(walletOwner('t'), refill, 20);
    await balance.take(100, 100);
    balance.release(100);
    balance.markInDoubt(1);
    await balance.replaceIfInDoubt();
    expect(balance.take(70, 70)).toEqual(taken(70));
    answer();
    await waitUntil(() => balance.lease !== 1);
    expect(balance.free).toBe(30);
  });

  test('deducts a commit from the new lease if it may have taken from that one', async () => {
    const balance: LeaseBalance = new LeaseBalance(walletOwner('t'), async (target, need) => {
      const startNew = target.inDoubt;
      const granted = need.creditsToRequest();
      if (startNew) target.startNewLease();
      // The commit took from the new lease, and its result arrives first.
      if (startNew) balance.booked(60, null);
      target.granted({ ...leaseResult, granted, lease: target.lease + 1 }, granted);
    });
    await balance.take(100, 100);
    balance.settle(100, 60);
    balance.markInDoubt(1);
    await balance.replaceIfInDoubt();
    expect([balance.free, balance.inDoubt]).toEqual([40, true]);
  });

  test('is in doubt after a commit that took from an unknown lease', async () => {
    const { balance } = balanceWith(100, 70);
    await balance.take(60, 60);
    balance.settle(60, 30);
    balance.booked(30, null);
    expect([balance.leased, balance.inDoubt]).toEqual([70, true]);
    // The commit came before the new lease, so nothing is deducted from the new one.
    await balance.replaceIfInDoubt();
    expect([balance.leased, balance.inDoubt]).toEqual([70, false]);
  });

  test('is not in doubt after a lost result about an ended lease', async () => {
    const { balance } = balanceWith(100);
    await balance.take(60, 60);
    balance.markInDoubt(0);
    expect(balance.inDoubt).toBe(false);
  });
});
