/** The gateway with books that hold nothing, write nothing down and keep nothing. */
import { Accounting } from '../src/money/accounting.ts';
import type { Hold } from '../src/money/hold/hold.ts';

const open = Accounting.open;

class FreeHold implements Hold {
  readonly credits: number;
  readonly keyAccount = null;
  settled = false;

  constructor(credits: number) {
    this.credits = credits;
  }

  maxCredits(enough: number): number {
    return enough;
  }

  async extend(credits: number): Promise<number> {
    return credits;
  }

  async settle(charge: number) {
    this.settled = true;
    return { wallet: charge, key: 0 };
  }
}

Accounting.open = async (parts) => {
  const books = await open(parts);
  books.hold = (_call, { requested: wanted }) => new FreeHold(wanted);
  books.dispatched = async () => {};
  // Metrics and log lines of a request are not part of billing, so they stay.
  books.saveSettlement = async ({ record }) => parts.onEnded(record);
  return books;
};

await import('../src/main.ts');
