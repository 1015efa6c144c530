import type { Batch, Settlement } from './ledger-store.ts';

/**
 * A settlement goes into the journal and a moment later into the books. Its text is made once, and
 * forgotten together with it.
 */
const texts = new WeakMap<Settlement, string>();

export function textOf(settlement: Settlement): string {
  let text = texts.get(settlement);
  if (text === undefined) {
    text = JSON.stringify(settlement);
    texts.set(settlement, text);
  }
  return text;
}

/** A batch for those who read it as JSON. */
export function batchText({ settlements, ...rest }: Batch): string {
  const settled = settlements.map(textOf).join(',');
  return `${JSON.stringify(rest).slice(0, -1)},"settlements":[${settled}]}`;
}
