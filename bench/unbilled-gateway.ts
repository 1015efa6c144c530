/** A gateway that doesn't hold credits and doesn't write a journal or a ledger. */
import { Accounting } from '../src/money/accounting.ts';
import type { Hold } from '../src/money/hold/hold.ts';

const open = Accounting.open;

class UnbilledHold implements Hold {
  readonly credits: number;
  readonly keyAccount = null;
  settled = false;

  constructor(credits: number) {
    this.credits = credits;
  }

  maxCredits(atLeast: number): number {
    return atLeast;
  }

  async extend(credits: number): Promise<number> {
    return credits;
  }

  async settle(charge: number) {
    this.settled = true;
    return { wallet: charge, key: 0 };
  }
}

Accounting.open = async (deps) => {
  const accounting = await open(deps);
  accounting.hold = (_call, { requested }) => new UnbilledHold(requested);
  accounting.dispatched = async () => {};
  // Metrics and log lines aren't part of billing, so they're still written.
  accounting.saveSettlement = async ({ record }) => deps.onEnded(record);
  return accounting;
};

await import('../src/main.ts');
