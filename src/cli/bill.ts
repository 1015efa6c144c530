import type { Receipt } from '../record/receipt.ts';
import { type ReceiptLine, reckon } from '../record/receipt-lines.ts';
import { counted, table } from './table.ts';

/** What was charged for one request, line by line. */

type BillRow = readonly [what: string, how: string, credits: string];

/** Every column of amounts adds up to its last line, exactly. */
export function bill(receipt: Receipt): string {
  const { lines, cost, cost_breakdown: fees, not_charged: notCharged, prices } = receipt;
  const isOwn = receipt.traffic_mode === 'byok';
  const { exact, roundedUpBy } = reckon(lines);
  const listed = lines.map((line): BillRow => [line.price, rate(line), line.credits]);
  const modelRows: BillRow[] = [
    ...listed,
    ...(roundedUpBy === '0' ? [] : [['rounded up, once', '', roundedUpBy] as const]),
  ];
  const basisPoints = Number(prices?.byok_fee_basis_points ?? 0);
  const ownFee = `${basisPoints / 100}% of the list price, rounded up, once`;
  const ownRows: BillRow[] = [
    ['byok platform fee', ownFee, String(fees.byok_platform_fee + notCharged)],
  ];
  const searches = counted(receipt.search_requests, 'web search', 'web searches');
  const more: BillRow[] = [
    ['managed tool fee', searches, String(fees.managed_tool_fee)],
    ['agent runtime fee', '', String(fees.agent_runtime_fee)],
  ];
  const charge = columns('CREDITS', [
    ...(isOwn ? ownRows : modelRows),
    ...(notCharged === 0 ? [] : [['not charged', '', String(-notCharged)] as const]),
    ...more.filter(([, , credits]) => credits !== '0'),
    ['charged', '', String(cost)],
  ]);
  if (!isOwn) return charge;
  return `${columns('AT LIST PRICE', [...listed, ['all of it', '', exact]])}\n\n${charge}`;
}

function columns(title: string, rows: readonly BillRow[]): string {
  const wide = Math.max(...rows.map(([, , credits]) => wholePart(credits).length));
  const shown = rows.map(([what, how, credits]) => [
    what,
    how,
    ' '.repeat(wide - wholePart(credits).length) + credits,
  ]);
  return table(['CHARGE', '', title], shown);
}

/** For aligning a column of amounts at their decimal points. */
function wholePart(amount: string): string {
  return amount.split('.')[0] ?? '';
}

function rate({ quantity, usd, per }: ReceiptLine): string {
  const used = quantity.toLocaleString('en-US');
  if (per === 1) return `${used} × $${usd} each`;
  // Prices per minute are quoted per 60 units: the usage itself is in seconds.
  return per === 60 ? `${used} s × $${usd} per minute` : `${used} × $${usd} per million`;
}
