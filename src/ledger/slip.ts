import type { Batch, ReadBatch, Settlement } from './ledger-store.ts';

/**
 * A settlement written out, once, for the journal and for the books. It is all that remains of a
 * request until it is booked: hundreds wait at any time, and what they hold on to survives the next
 * garbage collection.
 */
export interface Slip {
  readonly requestId: string;
  /** Epoch milliseconds. */
  readonly endedAt: number;
  /** The settlement as JSON. */
  readonly text: string;
}

export function slipOf(settlement: Settlement): Slip {
  const { requestId, createdAt, durationMs } = settlement.record;
  return { requestId, endedAt: createdAt + durationMs, text: JSON.stringify(settlement) };
}

/** A batch as JSON, for a thread that reads it. */
export function batchText({ slips, processId, mayRepeat, now }: Batch): string {
  const terms = JSON.stringify({ processId, mayRepeat, now });
  return `${terms.slice(0, -1)},"settlements":[${slips.map(({ text }) => text).join(',')}]}`;
}

export function readBatch({ slips, ...terms }: Batch): ReadBatch {
  // Only slipOf() writes these texts.
  const settlements = slips.map(({ text }) => JSON.parse(text) as Settlement);
  return { ...terms, settlements };
}
