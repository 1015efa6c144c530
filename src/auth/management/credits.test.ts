import { describe, expect, test } from 'bun:test';
import type { CreditStore } from './credits.ts';
import { changeWithRecall } from './credits.ts';

const correction = { tenantId: 't', amount: -5, note: '', idempotencyKey: null, now: 0 };
const entry = { ...correction, id: 1, kind: 'correction', balance: 0, createdAt: 0 } as const;

/** A correction on a wallet of which `leased` are out; the book answers with these, in turn. */
async function change(leased: number | undefined, ...outcomes: ('booked' | 'insufficient')[]) {
  const requests: string[] = [];
  const book: Pick<CreditStore, 'change' | 'balance'> = {
    change: async ({ tenantId }) => {
      requests.push(`change ${tenantId}`);
      if (outcomes.shift() === 'booked') return { kind: 'booked', entry };
      return { kind: 'insufficient', available: 0 };
    },
    balance: async () => (leased === undefined ? undefined : { balance: leased, leased }),
  };
  const recall = async (tenantId: string) => {
    requests.push(`recall ${tenantId}`);
  };
  const { kind } = await changeWithRecall(book, correction, recall);
  return [kind, ...requests];
}

describe('a change of credits', () => {
  test('that is booked is booked once, whatever is on lease', async () => {
    expect(await change(50, 'booked')).toEqual(['booked', 'change t']);
  });

  test('that fails for want of credits that nobody has, fails at once', async () => {
    expect(await change(0, 'insufficient')).toEqual(['insufficient', 'change t']);
    expect(await change(undefined, 'insufficient')).toEqual(['insufficient', 'change t']);
  });

  test('waits for credits that are on lease, asking for them once', async () => {
    expect(await change(50, 'insufficient', 'insufficient', 'booked')).toEqual([
      ...['booked', 'change t', 'recall t', 'change t', 'change t'],
    ]);
  });

  test('gives up when they do not come', async () => {
    const again = Array.from({ length: 5 }, () => 'change t');
    expect(await change(50)).toEqual(['insufficient', 'change t', 'recall t', ...again]);
  });
});
