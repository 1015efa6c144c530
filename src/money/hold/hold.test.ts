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

const said = { lease: 1, outsideLease: 0, leasedElsewhere: 0, unanswered: 0 };

/** A purse whose store gives whatever it is asked for, while it answers. */
function fullPurse(owner: Owner, isAway = (_: Owner) => false): LeaseBalance {
  return new LeaseBalance(owner, async (asking, need) => {
    if (isAway(owner)) throw new Error('away');
    const amounts = need.creditsToRequest();
    asking.granted({ ...said, granted: amounts }, amounts);
  });
}

/** A hold of 40 on both, and what each of the two could still give; the store of one is away. */
async function holdOf(
  ofWallet: number | Promise<number> = 0,
  ofKey: number | Promise<number> = 0,
  lost?: Owner,
) {
  let isHeld = false;
  const isAway = (owner: Owner) => isHeld && owner === lost;
  const purses = new Map([wallet, key].map((owner) => [owner, fullPurse(owner, isAway)]));
  const balance = (owner: Owner) => purses.get(owner) ?? fullPurse(owner);
  for (const owner of [wallet, key]) await balance(owner).take(40, 40);
  isHeld = true;
  const available = (owner: Owner) => (owner === wallet ? ofWallet : ofKey);
  const hold = new OpenHold({ balance, mayExtend: () => true, available }, wallet, key, 40);
  return { hold, held: () => [balance(wallet).held, balance(key).held] };
}

describe('a hold on a wallet and a key', () => {
  const soon = (credits: number) => Promise.resolve(credits);

  test.each<[string, number | Promise<number>, number | Promise<number>]>([
    ['nobody', 900, 300],
    ['nobody', 300, 900],
    ['the store of the wallet', soon(900), 300],
    ['the store of the key', 300, soon(900)],
    ['the store of both', soon(900), soon(300)],
  ])('reaches as far as both do, where %s has to be asked', async (_, ofWallet, ofKey) => {
    const { hold } = await holdOf(ofWallet, ofKey);
    expect(await hold.maxCredits(5_000)).toBe(340);
  });

  test('that ends while it is extended leaves nothing on either', async () => {
    const { hold, held } = await holdOf();
    const extending = hold.extend(50);
    await hold.settle(0);
    expect(await extending).toBeNull();
    expect(held()).toEqual([0, 0]);
  });

  test.each([wallet, key])('does not take $name for empty when its store is away', async (lost) => {
    const { hold, held } = await holdOf(0, 0, lost);
    await expect(hold.extend(50)).rejects.toMatchObject({ symbol: 'service_unavailable' });
    expect([hold.credits, ...held()]).toEqual([40, 40, 40]);
  });
});
