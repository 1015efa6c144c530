import { totalCharge } from '../record/request-record.ts';
import type { Booked, Settlement } from './ledger-store.ts';
import { walletName } from './owner.ts';

export type AccountCharge = Pick<Booked, 'account' | 'charge'>;

/** What a settlement takes from which account: the wallet, then the key's limit if it has one. */
export function chargesOf({ record, keyAccount, keyCharge }: Settlement): readonly AccountCharge[] {
  const wallet = {
    account: walletName(record.tenantId),
    charge: totalCharge(record.charges),
  };
  return keyAccount === null ? [wallet] : [wallet, { account: keyAccount, charge: keyCharge }];
}
