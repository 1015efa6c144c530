import { type Charges, noCharges, totalCharge } from '../record/request-record.ts';
import type { Settlement } from './ledger-store.ts';
import { walletName } from './owner.ts';

/**
 * Takes `credits` off the latest settlements of a wallet that cannot pay them: the balance never
 * goes below zero, and the loss stands in the log where the operator can see it.
 */
export function writeOff(
  settlements: readonly Settlement[],
  wallet: string,
  credits: number,
): readonly Settlement[] {
  let left = credits;
  const reduced = settlements.toReversed().map((settlement) => {
    if (left === 0 || walletName(settlement.record.tenantId) !== wallet) return settlement;
    const loss = Math.min(left, totalCharge(settlement.record.charges));
    left -= loss;
    return loss === 0 ? settlement : withWriteOff(settlement, loss);
  });
  return reduced.toReversed();
}

/** One settlement of which a part was not paid. */
export function withWriteOff(settlement: Settlement, loss: number): Settlement {
  const { record } = settlement;
  const note = `${loss} credits were written off because the wallet was empty.`;
  const charges = reduceCharges(record.charges, loss);
  return {
    ...settlement,
    writtenOff: settlement.writtenOff + loss,
    // What nobody paid counts against no limit.
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
  const less = (credits: number): number => {
    const taken = Math.min(left, credits);
    left -= taken;
    return credits - taken;
  };
  return {
    modelCharge: less(charges.modelCharge),
    byokPlatformFee: less(charges.byokPlatformFee),
    managedToolFee: less(charges.managedToolFee),
    agentRuntimeFee: less(charges.agentRuntimeFee),
  };
}

/** The end of a request that could not be written down: then it is not charged either. */
export function withoutCharge(settlement: Settlement): Settlement {
  const { record } = settlement;
  return {
    ...settlement,
    writtenOff: 0,
    keyCharge: 0,
    record: {
      ...record,
      status: 'error',
      error: 'service_unavailable',
      charges: noCharges,
      note: 'The journal could not be written, so the answer was broken off and costs nothing.',
    },
  };
}
