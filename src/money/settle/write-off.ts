import { pluralize } from '../../core/text.ts';
import type { RequestRecord } from '../../records/request-record.ts';
import type { Settlement } from '../ledger.ts';
import { walletName } from '../ledger.ts';
import { byFeeKind, type Charges, noCharges, totalCharge } from '../price/fee-kinds.ts';

/**
 * Deducts credits that a wallet can't pay from its latest settlements, so that its balance never
 * goes below zero. The loss is recorded in the request log.
 */
export function writeOff(
  settlements: readonly Settlement[],
  wallet: string,
  credits: number,
): readonly Settlement[] {
  let left = credits;
  const reduced = settlements.toReversed().map((settlement) => {
    if (walletName(settlement.record.tenantId) !== wallet) return settlement;
    const loss = Math.min(left, totalCharge(settlement.record.charges));
    left -= loss;
    return loss === 0 ? settlement : withWriteOff(settlement, loss);
  });
  return reduced.toReversed();
}

/** Returns a settlement reduced by a loss that the wallet couldn't pay. */
export function withWriteOff(settlement: Settlement, loss: number): Settlement {
  const { record } = settlement;
  const lost = pluralize(loss, 'credit was', 'credits were');
  const note = `${lost} written off because the wallet couldn't cover them.`;
  const charges = reduceCharges(record.charges, loss);
  return {
    ...settlement,
    writtenOff: settlement.writtenOff + loss,
    // Credits that the wallet didn't pay don't count against the key's limit.
    keyCharge: Math.min(settlement.keyCharge, totalCharge(charges)),
    record: {
      ...record,
      charges,
      note: record.note ? `${record.note} ${note}` : note,
    },
  };
}

function reduceCharges(charges: Charges, loss: number): Charges {
  let left = loss;
  const deduct = (credits: number): number => {
    const deducted = Math.min(left, credits);
    left -= deducted;
    return credits - deducted;
  };
  return byFeeKind((kind) => deduct(charges[kind]));
}

/** Why an answer isn't charged: the error that interrupted it, or a note. */
export type Failure = Pick<RequestRecord, 'error' | 'note'>;

/** Returns a settlement without charges, for an answer that its client doesn't get. */
export function withoutCharge(settlement: Settlement, failure: Failure): Settlement {
  const { record } = settlement;
  return {
    ...settlement,
    writtenOff: 0,
    keyCharge: 0,
    record: {
      ...record,
      ...failure,
      status: failure.error === null ? record.status : 'error',
      charges: noCharges,
    },
  };
}
