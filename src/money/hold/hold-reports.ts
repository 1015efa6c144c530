import type { LeaseHolds, LedgerStore } from '../ledger.ts';
import type { LeaseBalance } from './lease-balance.ts';

/**
 * What running requests of this process hold on wallets, and its reports to the store, so that
 * other processes can show it. No request waits for a report.
 */
export class HoldReports {
  readonly #store: Pick<LedgerStore, 'reportHolds'>;
  readonly #processId: string;
  readonly #balances: () => readonly LeaseBalance[];
  readonly #reported = new WeakMap<LeaseBalance, LeaseHolds>();

  constructor(
    store: Pick<LedgerStore, 'reportHolds'>,
    processId: string,
    balances: () => readonly LeaseBalance[],
  ) {
    this.#store = store;
    this.#processId = processId;
    this.#balances = balances;
  }

  /** Returns the credits held on all wallets. Holds on keys' limits are the same credits. */
  get total(): number {
    return this.#wallets.reduce((sum, { held }) => sum + held, 0);
  }

  get #wallets(): readonly LeaseBalance[] {
    return this.#balances().filter(({ owner }) => owner.allowance === null);
  }

  /** Returns true if the store has another amount. A new lease starts without holds. */
  isOutdated(balance: LeaseBalance): boolean {
    const reported = this.#reported.get(balance);
    return balance.held !== (reported?.lease === balance.lease ? reported.held : 0);
  }

  /** Reports the holds that have changed since the last report. */
  async send(): Promise<void> {
    const outdated = this.#wallets.filter((balance) => this.isOutdated(balance));
    if (outdated.length === 0) return;
    const reports = outdated.map((balance) => ({ balance, report: reportOf(balance) }));
    await this.#store.reportHolds(
      this.#processId,
      reports.map(({ report }) => report),
    );
    for (const { balance, report } of reports) this.#reported.set(balance, report);
  }
}

function reportOf({ owner, lease, held }: LeaseBalance): LeaseHolds {
  return { owner: owner.name, lease, held };
}
