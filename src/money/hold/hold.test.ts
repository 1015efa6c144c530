import { describe, expect, test } from 'bun:test';
import { type Owner, walletOwner } from '../ledger.ts';
import { OpenHold } from './hold.ts';
import { LeaseBalance } from './lease-balance.ts';

const wallet = walletOwner('t');
const key: Owner = {
  name: 'key:k',
  tenantId: 't',
  allowance: { credits: 1_000, keyId: 'k', firstDay: 0, endDay: 1 },
};

const none = { leasedElsewhere: 0, unanswered: 0, unansweredUntil: null };
const leaseResult = { lease: 1, outsideLease: 0, ...none };

/** A lease balance whose store grants every request, unless it is down. */
function unlimitedBalance(owner: Owner, isDown = (_: Owner) => false): LeaseBalance {
  return new LeaseBalance(owner, async (target, need) => {
    if (isDown(owner)) throw new Error('unavailable');
    const amounts = need.creditsToRequest();
    target.granted({ ...leaseResult, granted: amounts }, amounts);
  });
}

/**
 * A hold of 40 credits on both accounts. They can give `ofWallet` and `ofKey` more credits. The
 * store is down for `lost`.
 */
async function holdOf(
  ofWallet: number | Promise<number> = 0,
  ofKey: number | Promise<number> = 0,
  lost?: Owner,
) {
  let isHeld = false;
  const isDown = (owner: Owner) => isHeld && owner === lost;
  const balances = new Map([wallet, key].map((owner) => [owner, unlimitedBalance(owner, isDown)]));
  const balance = (owner: Owner) => balances.get(owner) ?? unlimitedBalance(owner);
  for (const owner of [wallet, key]) await balance(owner).take(40, 40);
  isHeld = true;
  const available = (owner: Owner) => (owner === wallet ? ofWallet : ofKey);
  const hold = new OpenHold({ balance, mayExtend: () => true, available }, wallet, key, 40);
  return { hold, held: () => [balance(wallet).held, balance(key).held] };
}

describe('OpenHold', () => {
  const soon = (credits: number) => Promise.resolve(credits);

  test.each<[string, number | Promise<number>, number | Promise<number>]>([
    ['neither account', 900, 300],
    ['neither account', 300, 900],
    ['the wallet', soon(900), 300],
    ['the key', 300, soon(900)],
    ['both accounts', soon(900), soon(300)],
  ])(
    'maxCredits returns the smaller limit if %s must be read from the store',
    async (_, ofWallet, ofKey) => {
      const { hold } = await holdOf(ofWallet, ofKey);
      expect(await hold.maxCredits(5_000)).toBe(340);
    },
  );

  test('releases an extension on both accounts if it settles in the meantime', async () => {
    const { hold, held } = await holdOf();
    const extending = hold.extend(50);
    await hold.settle(0);
    expect(await extending).toBeNull();
    expect(held()).toEqual([0, 0]);
  });

  test('charges what is held, as reported to the client, if the store is down', async () => {
    const { hold, held } = await holdOf(0, 0, wallet);
    // What the wallet pays counts toward the key's limit.
    expect(await hold.settle(70)).toEqual({ wallet: 40, key: 40 });
    expect(held()).toEqual([0, 0]);
  });

  test("counts the full charge toward the key's limit if the store is down for the key", async () => {
    const { hold } = await holdOf(0, 0, key);
    expect(await hold.settle(70)).toEqual({ wallet: 70, key: 70 });
  });

  test.each([wallet, key])(
    'rejects with 503 instead of returning null if the store is down for $name',
    async (lost) => {
      const { hold, held } = await holdOf(0, 0, lost);
      await expect(hold.extend(50)).rejects.toMatchObject({ symbol: 'service_unavailable' });
      expect([hold.credits, ...held()]).toEqual([40, 40, 40]);
    },
  );
});
