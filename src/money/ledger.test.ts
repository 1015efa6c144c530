import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/money/settlements.ts';
import { keyLimitAccount, walletOf, walletOwner } from './ledger.ts';

const day = (text: string) => Date.parse(`${text}Z`);

describe('account owners', () => {
  test('name a wallet after its tenant', () => {
    expect(walletOwner('ten_1')).toEqual({
      name: 'tenant:ten_1',
      tenantId: 'ten_1',
      allowance: null,
    });
  });

  test("use the tenant's wallet for all its keys", () => {
    const [one, two] = [callerOf('ten_1', { keyId: 'a' }), callerOf('ten_1', { keyId: 'b' })];
    expect(walletOf(one)).toEqual({ name: 'tenant:ten_1', tenantId: 'ten_1', allowance: null });
    expect(walletOf(one)).toBe(walletOf(one));
    expect(walletOf(two)).toEqual(walletOf(one));
    expect(walletOf(callerOf('ten_2')).name).toBe('tenant:ten_2');
  });

  test("name a key's account after the first day of its period, if it has a limit", () => {
    const now = day('2032-02-29T10:00');
    const owner = (change: object) =>
      keyLimitAccount(callerOf('ten_1', { keyId: 'k', ...change }), now);
    expect(owner({})).toBeUndefined();
    expect(owner({ limitCredits: 0 })).toMatchObject({ name: 'key:k', allowance: { credits: 0 } });
    expect(owner({ limitCredits: 5, limitReset: 'weekly' })).toMatchObject({
      name: 'key:k:2032-02-23',
    });
  });

  // January 1, 2032 is day 22,645: 62 years of 365 days plus 15 leap days.
  test.each([
    ['daily', '2032-02-29T10:00', 22_704, 22_705],
    ['weekly', '2032-02-29T10:00', 22_698, 22_705],
    ['monthly', '2032-02-29T10:00', 22_676, 22_705],
    ['monthly', '2032-01-31T23:59', 22_645, 22_676],
    ['monthly', '2032-12-31T23:59', 22_980, 23_011],
  ] as const)('return the days of a %s limit at %s', (limitReset, now, firstDay, endDay) => {
    const caller = callerOf('ten_1', { keyId: 'k', limitCredits: 5, limitReset });
    expect(keyLimitAccount(caller, day(now))?.allowance).toEqual({
      credits: 5,
      keyId: 'k',
      firstDay,
      endDay,
    });
  });
});
