import { sql } from 'kysely';
import { walletName } from '../../ledger/owner.ts';
import type { WalletReads, WalletTotals } from '../../record/wallet-totals.ts';
import { OnDatabase } from '../database.ts';

/** A wallet from its account, the entries made by hand, and the daily sums. */
export class SqlWalletTotals extends OnDatabase implements WalletReads {
  /** One statement, so that the numbers belong together while requests are being booked. */
  async totals(tenantId: string): Promise<WalletTotals> {
    // The first condition on the kind lets the engines use the index that has no charges.
    const byHand = (kind: string) => sql<number>`(
      select coalesce(sum(amount), 0) from ledger_entries
      where account_id = accounts.id and kind <> 'charge' and kind = ${kind}
    )`;
    const requests = sql<number>`(
      select coalesce(sum(requests), 0) from usage_daily where tenant_id = ${tenantId}
    )`;
    const row = await this.database.read
      .selectFrom('accounts')
      .select(['balance', 'leased', 'spent'])
      .select([
        byHand('grant').as('granted'),
        byHand('correction').as('adjusted'),
        requests.as('requests'),
      ])
      .where('owner', '=', walletName(tenantId))
      .executeTakeFirst();
    return row ?? { balance: 0, leased: 0, spent: 0, granted: 0, adjusted: 0, requests: 0 };
  }
}
