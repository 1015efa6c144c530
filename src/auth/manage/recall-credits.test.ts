import { describe, expect, test } from 'bun:test';
import { changeOrRecall } from './recall-credits.ts';

/** A correction on a wallet of which `leased` are out; the book answers with these, in turn. */
async function change(leased: number | undefined, ...outcomes: string[]) {
  const asked: string[] = [];
  const book = {
    change: async ({ tenantId }: { tenantId: string }) => {
      asked.push(`change ${tenantId}`);
      return { kind: outcomes.shift() ?? 'insufficient' };
    },
    balance: async () => (leased === undefined ? undefined : { leased }),
  };
  const recall = async (tenantId: string) => {
    asked.push(`recall ${tenantId}`);
  };
  const { kind } = await changeOrRecall(book, { tenantId: 't' }, recall);
  return [kind, ...asked];
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
