import {
  type AuditFilter,
  auditCells,
  auditColumns,
  auditObject,
  auditPages,
} from '../control/audit.ts';
import { invalidRequest } from '../core/errors.ts';
import { csvTable } from '../records/csv.ts';
import { allTime } from '../records/period.ts';
import { type Args, type Context, singleCommandTopic } from './command.ts';
import { formatMinute, printJson, printTable } from './output.ts';

const defaultLimit = 100;
const limitMax = 10_000;

export const audit = singleCommandTopic('audit', 'Show who changed what', {
  summary: 'Show changes to configuration, tenants, keys, and credits, newest first',
  options: {
    action: { value: '<action>', summary: 'Only this action, or a group such as "key."' },
    actor: { value: '<name>', summary: 'Only changes by this key, user, or "admin"' },
    tenant: { value: '<id>', summary: 'Only changes that concern this tenant' },
    target: { value: '<name>', summary: 'Only changes of this object' },
    limit: { value: '<n>', summary: `How many changes (default: ${defaultLimit})` },
    before: { value: '<id>', summary: 'Only changes with a lower ID, for the next page' },
    csv: { summary: 'Print all matching changes with their states as CSV' },
  },
  async run(context) {
    const { args } = context;
    const filter = {
      ...allTime,
      action: args.text('action') ?? null,
      actor: args.text('actor') ?? null,
      tenantId: args.text('tenant') ?? null,
      target: args.text('target') ?? null,
    };
    if (args.has('csv')) return printCsv(context, filter);
    const limit = numberIn(args, 'limit', limitMax) ?? defaultLimit;
    const before = numberIn(args, 'before', Number.MAX_SAFE_INTEGER);
    const { audit: reads } = await context.services();
    // One more shows whether there is another page.
    const entries = await reads.list(filter, before, limit + 1);
    const page = entries.slice(0, limit);
    const next = entries.length > limit ? (page.at(-1)?.id ?? null) : null;
    const data = page.map(auditObject);
    if (args.has('json')) return printJson(context, { data, next_before: next });
    const rows = data.map((entry) => [
      String(entry.id),
      formatMinute(entry.created_at),
      entry.actor,
      entry.origin,
      entry.action,
      entry.tenant_id,
      entry.target,
    ]);
    const header = ['ID', 'TIME (UTC)', 'ACTOR', 'FROM', 'ACTION', 'TENANT', 'TARGET'];
    printTable(context, 'changes', header, rows);
    if (next !== null) context.err(`There are earlier changes. Add --before ${next}.`);
  },
});

async function printCsv(context: Context, filter: AuditFilter): Promise<void> {
  const { args, write } = context;
  const other = ['json', 'limit', 'before'].find((name) => args.has(name));
  if (other !== undefined) throw invalidRequest(`--csv can't be used with --${other}.`, other);
  const { audit: reads } = await context.services();
  for await (const lines of csvTable(auditColumns, auditPages(reads, filter), auditCells)) {
    await write(lines);
  }
}

/** Returns null if the option isn't set. Throws 400. */
function numberIn(args: Args, name: string, max: number): number | null {
  const number = args.number(name);
  if (number === undefined) return null;
  if (typeof number === 'number' && number >= 1 && number <= max) return number;
  throw invalidRequest(`--${name} must be a whole number from 1 to ${max}.`, name);
}
