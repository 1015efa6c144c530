import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { notFound } from '../core/errors.ts';
import { toRequestId } from '../core/ids.ts';
import { patientFind } from '../record/patient-find.ts';
import { type Receipt, receiptObject } from '../record/receipt.ts';
import type { RequestRecord } from '../record/request-record.ts';
import { bill } from './bill.ts';
import { type Context, type Desk, onlyCommand } from './command.ts';
import { printJson } from './output.ts';
import { type Cell, fields, table } from './table.ts';

/**
 * Explains one request to the operator: the receipt that its tenant sees, and the providers'
 * messages about the operator's accounts, which no tenant sees.
 */
export const why = onlyCommand(
  'why',
  'Tell the story of one request: attempts, times, tokens, charge',
  {
    summary: 'Tell the story of one request, by its x-request-id or the id of its answer',
    operand: '<request id>',
    options: {},
    run: tell,
  },
);

async function tell(context: Context): Promise<void> {
  const { args, flags, out } = context;
  const { creditsPerUsd } = loadConfig(flags, environment, ['credits_per_usd']);
  const desk = await context.desk();
  const record = await patientFind(toRequestId(args.operand), (id) =>
    desk.requests.findAnybodys(id),
  );
  if (!record) throw notFound('There is no request with this id.', 'id');
  const receipt = { ...receiptObject(record, creditsPerUsd), attempts: record.attempts };
  const asker = await askerOf(desk, record);
  if (args.has('json')) return printJson(context, { data: { ...receipt, ...asker } });
  const parts = [
    head(receipt, asker),
    attempts(receipt),
    receipt.tokens.total === 0 ? null : fields(tokens(receipt)),
    bill(receipt),
    longPrompt(receipt),
    receipt.billing_note,
  ];
  out(parts.filter((part) => part !== null).join('\n\n'));
}

type Asker = Awaited<ReturnType<typeof askerOf>>;

/** The names of the tenant and the key; a deleted key has no name any more. */
async function askerOf({ directory }: Desk, { tenantId, keyId }: RequestRecord) {
  const tenant = await directory.getTenant(tenantId);
  const key = await directory.getKey(tenantId, keyId);
  return {
    tenant: { id: tenantId, name: tenant?.name ?? null },
    key: { id: keyId, name: key?.name ?? null, label: key?.label ?? null },
  };
}

function head(receipt: Receipt, { tenant, key }: Asker): string {
  const { answered_by: by, first_byte_ms: firstByteMs } = receipt;
  const asked = [receipt.model || 'no model named', receipt.operation];
  if (receipt.streamed) asked.push('streamed');
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
    asked: asked.join(', '),
    ...optional,
    'answered by': by.provider === null ? null : `${by.provider}, ${by.model}`,
    ended: ending(receipt),
    'first byte': firstByteMs === null ? null : `${took(firstByteMs)} after its attempt began`,
    'whole answer': took(receipt.latency_ms),
  });
}

function ending(receipt: Receipt): string {
  if (receipt.failure !== null) return `${receipt.error}. ${receipt.failure}`;
  const finish = receipt.finish_reason === null ? '' : `, finish reason "${receipt.finish_reason}"`;
  if (receipt.cache_hit) return `well, with an answer given before${finish}`;
  return receipt.cancelled ? `the client left early${finish}` : `well${finish}`;
}

function attempts({ attempts: tried }: Receipt): string {
  if (tried.length === 0) return 'It was sent to no provider.';
  const rows = tried.map(({ provider, model, outcome, status, ms, message }, at) => [
    at + 1,
    provider,
    model,
    outcome.replaceAll('_', ' '),
    status,
    took(ms),
    message ?? '',
  ]);
  return table(['ATTEMPT', 'PROVIDER', 'MODEL', 'ENDED', 'STATUS', 'TOOK', 'WHY'], rows);
}

function tokens({ tokens: used, usage_estimated }: Receipt): Record<string, Cell> {
  const { input, cache_read, cache_write, completion, total } = used;
  return {
    'input tokens': input,
    ...(used.audio === 0 ? {} : { 'input that was audio': used.audio }),
    'read from the cache': cache_read,
    'written to the cache': cache_write,
    ...(used.cache_write_1h === 0 ? {} : { 'the same for an hour': used.cache_write_1h }),
    'output tokens': completion,
    'of which reasoning': used.reasoning,
    [usage_estimated ? 'all, an estimate' : 'all tokens']: total,
  };
}

function longPrompt({ prices_above_tokens: above }: Receipt): string | null {
  if (above === null) return null;
  return `The prices are those of prompts above ${above.toLocaleString('en-US')} tokens.`;
}

function took(ms: number): string {
  return `${Math.round(ms).toLocaleString('en-US')} ms`;
}
