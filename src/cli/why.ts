import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import type { MarginObject, ReceiptLineObject, ReceiptObject } from '../contract/receipt.ts';
import { notFound } from '../core/errors.ts';
import { toRequestId } from '../core/ids.ts';
import { type FeeName, feeEntries, feeKinds } from '../money/price/fee-kinds.ts';
import { perLabel } from '../money/price/price-classes.ts';
import { findInAnyProcess } from '../records/customer-log.ts';
import { type OperatorAttempt, operatorReceipt, sumLines } from '../records/receipt.ts';
import type { RequestRecord } from '../records/request-record.ts';
import { type CommandServices, type Context, singleCommandTopic } from './command.ts';
import { type Cell, fields, formatCount, printJson, table } from './output.ts';

/**
 * Explains one request to the operator: the receipt that its tenant sees, plus the providers'
 * messages about the operator's accounts, which tenants don't see.
 */
export const why = singleCommandTopic(
  'why',
  'Explain one request: attempts, times, tokens, charge',
  {
    summary: 'Explain one request, by its x-request-id or the ID of its answer',
    positional: '<request id>',
    options: {},
    run: explainRequest,
  },
);

async function explainRequest(context: Context): Promise<void> {
  const { args, flags, out } = context;
  const { creditsPerUsd } = loadConfig(flags, environment, ['credits_per_usd']);
  const services = await context.services();
  const found = await findInAnyProcess(toRequestId(args.positional), {
    record: (id) => services.requests.findForAnyTenant(id),
    running: (id) => services.runningRequests.find(id, null, services.now()),
    isOnlyHere: () => false,
  });
  if (!found) throw notFound('There is no request with this ID.', 'id');
  if (!('charges' in found))
    throw notFound('This request is still running. Try again once it has ended.', 'id');
  const record = found;
  const receipt = operatorReceipt(record, creditsPerUsd);
  const caller = await callerOf(services, record);
  if (args.has('json')) return printJson(context, { data: { ...receipt, ...caller } });
  const sections = [
    head(receipt, caller),
    attemptTable(receipt),
    receipt.tokens.total === 0 ? null : fields(tokenFields(receipt)),
    bill(receipt),
    marginTable(receipt.margin),
    pricesFrom(receipt),
    longPrompt(receipt),
    receipt.billing_note,
  ];
  out(sections.filter((section) => section !== null).join('\n\n'));
}

type CallerNames = Awaited<ReturnType<typeof callerOf>>;

/** Returns the names of the tenant and the key. A deleted key has no name. */
async function callerOf({ directory }: CommandServices, { tenantId, keyId }: RequestRecord) {
  const tenant = await directory.getTenant(tenantId);
  const key = await directory.getKey(tenantId, keyId);
  return {
    tenant: { id: tenantId, name: tenant?.name ?? null },
    key: { id: keyId, name: key?.name ?? null, label: key?.label ?? null },
  };
}

function head(receipt: ReceiptObject, { tenant, key }: CallerNames): string {
  const { answered_by: by, first_byte_ms: firstByteMs } = receipt;
  const requested = [receipt.model || 'no model', receipt.operation];
  if (receipt.streamed) requested.push('streamed');
  const optional = {
    ...(receipt.job_id === null ? {} : { job: receipt.job_id }),
    ...(receipt.user === null ? {} : { 'end user': receipt.user }),
    ...(receipt.skills_used.length === 0 ? {} : { skills: receipt.skills_used.join(', ') }),
  };
  return fields({
    request: receipt.request_id,
    when: `${receipt.created_at.slice(0, 19).replace('T', ' ')} UTC`,
    tenant: tenant.name === null ? tenant.id : `${tenant.name} (${tenant.id})`,
    key: key.name === null ? `${key.id}, deleted` : `${key.name} (${key.label}, ${key.id})`,
    requested: requested.join(', '),
    ...optional,
    'answered by': by.provider === null ? null : `${by.provider}, ${by.model}`,
    ended: outcomeText(receipt),
    'first byte':
      firstByteMs === null ? null : `${formatMs(firstByteMs)} after the attempt started`,
    'total time': formatMs(receipt.latency_ms),
  });
}

function outcomeText(receipt: ReceiptObject): string {
  if (receipt.failure !== null) return `${receipt.error}. ${receipt.failure}`;
  const finish = receipt.finish_reason === null ? '' : `, finish reason "${receipt.finish_reason}"`;
  if (receipt.cache_hit) return `complete, replayed from an earlier answer${finish}`;
  return `${receipt.cancelled ? 'the client disconnected' : 'complete'}${finish}`;
}

function attemptTable({ attempts }: { readonly attempts: readonly OperatorAttempt[] }): string {
  if (attempts.length === 0) return 'The request was not sent to a provider.';
  const hasKeys = attempts.some(({ key }) => key !== undefined);
  const rows = attempts.map(({ outcome, status, ms, message, ...attempt }, index) => [
    index + 1,
    `${attempt.provider}${attempt.own_account ? ' (BYOK)' : ''}`,
    ...(hasKeys ? [attempt.key ?? ''] : []),
    attempt.model,
    outcome.replaceAll('_', ' '),
    status,
    formatMs(ms),
    message ?? '',
  ]);
  const columns = ['MODEL', 'OUTCOME', 'STATUS', 'TIME', 'MESSAGE'];
  return table(['ATTEMPT', 'PROVIDER', ...(hasKeys ? ['KEY'] : []), ...columns], rows);
}

function tokenFields({ tokens, usage_estimated }: ReceiptObject): Record<string, Cell> {
  const { input, cache_read, cache_write, completion, total } = tokens;
  return {
    'input tokens': input,
    ...(tokens.audio === 0 ? {} : { 'audio input': tokens.audio }),
    'cached input': cache_read,
    'cache writes': cache_write,
    ...(tokens.cache_write_1h === 0 ? {} : { '1-hour cache writes': tokens.cache_write_1h }),
    'output tokens': completion,
    'of which reasoning': tokens.reasoning,
    [usage_estimated ? 'total tokens, estimated' : 'total tokens']: total,
  };
}

function longPrompt({ prices_above_tokens: above }: ReceiptObject): string | null {
  if (above === null) return null;
  return `The prices for prompts above ${above.toLocaleString('en-US')} tokens apply.`;
}

function formatMs(ms: number): string {
  return `${Math.round(ms).toLocaleString('en-US')} ms`;
}

type BillRow = readonly [label: string, detail: string, credits: string];

/** Formats the charge line by line. The last line of each column is the exact sum of the others. */
function bill(receipt: ReceiptObject): string {
  const { lines, cost, cost_breakdown: fees, not_charged: notCharged, prices } = receipt;
  // A failed request has no prices, so it has no fee either.
  const isOwn = receipt.traffic_mode === 'byok' && prices !== null;
  const { exact, roundedUpBy } = sumLines(lines);
  const listed = lines.map((line): BillRow => [line.price, rate(line), line.credits]);
  const modelRows: BillRow[] = [
    ...listed,
    ...(roundedUpBy === '0' ? [] : [['rounded up once', '', roundedUpBy] as const]),
  ];
  const basisPoints = Number(prices?.byok_fee_basis_points ?? 0);
  const ownFee = `${basisPoints / 100}% of the list price, rounded up once`;
  const { name: ownFeeName } = feeKinds.byokPlatformFee;
  const ownRows: BillRow[] = [
    [feeLabel(ownFeeName), ownFee, String(fees[ownFeeName] + notCharged)],
  ];
  const otherFees = feeEntries
    .filter(([, { counted: isCounted }]) => isCounted)
    .map(([, { name, quantity }]): BillRow => {
      const used =
        quantity && formatCount(receipt[quantity.field], quantity.singular, quantity.plural);
      return [feeLabel(name), used ?? '', String(fees[name])];
    });
  const charge = columns('CREDITS', [
    ...(isOwn ? ownRows : modelRows),
    ...(notCharged === 0 ? [] : [['not charged', '', String(-notCharged)] as const]),
    ...otherFees.filter(([, , credits]) => credits !== '0'),
    ['charged', '', String(cost)],
  ]);
  if (!isOwn) return charge;
  return `${columns('AT LIST PRICE', [...listed, ['total', '', exact]])}\n\n${charge}`;
}

/** Shows list price, margin, and charge before it is rounded up. */
function marginTable(margin: MarginObject | null): string | null {
  if (margin === null) return null;
  const { plan, factor_basis_points: factor, surcharge } = margin;
  const added = Object.entries(surcharge).map(([name, price]) => `$${price} on ${name}`);
  const detail = [`${factor / 100}% of the list price`, ...added].join(' + ');
  return columns('CREDITS', [
    ['at list price', '', margin.list],
    [`margin of the plan "${plan}"`, detail, margin.margin],
    ['total', '', margin.charge],
  ]);
}

function pricesFrom({ prices_from: from }: ReceiptObject): string | null {
  return from === null ? null : `These prices apply since ${from}.`;
}

function feeLabel(name: FeeName): string {
  return name.replaceAll('_', ' ');
}

function columns(title: string, rows: readonly BillRow[]): string {
  const width = Math.max(...rows.map(([, , credits]) => integerPart(credits).length));
  const shown = rows.map(([label, detail, credits]) => [
    label,
    detail,
    ' '.repeat(width - integerPart(credits).length) + credits,
  ]);
  return table(['CHARGE', '', title], shown);
}

/** Returns the part before the decimal point, because columns of amounts are aligned there. */
function integerPart(amount: string): string {
  return amount.split('.')[0] ?? '';
}

function rate({ quantity, usd, per }: ReceiptLineObject): string {
  const used = quantity.toLocaleString('en-US');
  // For prices per minute, the quantity is in seconds, so the price is per 60 units.
  return `${used}${per === 60 ? ' s' : ''} × $${usd} ${perLabel(per)}`;
}
