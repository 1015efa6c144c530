import type { Receipt } from '../record/receipt.ts';
import { type Line, reckon } from '../record/receipt-lines.ts';
import { counted, table } from './table.ts';

/** What was charged for one request, line by line. */

type BillRow = readonly [what: string, how: string, credits: string];

/** Every column of amounts adds up to its last line, exactly. */
export function bill(receipt: Receipt): string {
  const { lines, cost, cost_breakdown: fees, prices } = receipt;
  const isOwn = receipt.traffic_mode === 'byok';
  const { exact, roundedUpBy, notCharged } = reckon(lines, fees.model_charge);
  const listed = lines.map((line): BillRow => [line.price, rate(line), line.credits]);
  const modelRows: BillRow[] = [
    ...listed,
    ...(roundedUpBy === '0' ? [] : [['rounded up, once', '', roundedUpBy] as const]),
    ...(notCharged === 0 ? [] : [['not charged', '', String(-notCharged)] as const]),
  ];
  const share = Number(prices?.byok_fee_basis_points ?? 0) / 100;
  const ownRows: BillRow[] = [
    [
      'byok platform fee',
      `${share}% of the list price, rounded up, once`,
      String(fees.byok_platform_fee),
    ],
  ];
  const searches = counted(receipt.search_requests, 'web search', 'web searches');
  const more: BillRow[] = [
    ['managed tool fee', searches, String(fees.managed_tool_fee)],
    ['agent runtime fee', '', String(fees.agent_runtime_fee)],
  ];
  const charge = columns('CREDITS', [
    ...(isOwn ? ownRows : modelRows),
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

/** Amounts stand below each other by their decimal points. */
function wholePart(amount: string): string {
  return amount.split('.')[0] ?? '';
}

const per: Readonly<Record<number, string>> = { 1: 'each', 60: 'per minute' };

function rate({ quantity, usd, per: many }: Line): string {
  return `${quantity.toLocaleString('en-US')} × $${usd} ${per[many] ?? 'per million'}`;
}
