import { readMonth } from '../records/period.ts';
import { statementCsv } from '../records/statement.ts';
import type { Progress } from '../store/verify/progress.ts';
import type { Verification } from '../store/verify/verify.ts';
import type { Command, Context, Topic } from './command.ts';
import { servicesForTenant, tenantOption } from './command.ts';
import { formatCount, printJson } from './output.ts';

/** Maximum number of discrepancies in the JSON output. A repair can start with these. */
const listedMax = 1_000;

const verify: Command = {
  name: 'verify',
  summary: 'Compare balances, entries, requests, and daily sums with each other',
  options: {},
  async run(context) {
    const { args, out } = context;
    const services = await context.services();
    const listed: string[] = [];
    const report = (line: string) => {
      if (!args.has('json')) out(line);
      else if (listed.length < listedMax) listed.push(line);
    };
    const found = await services.verify(report, progressReporter(context));
    const { discrepancies, ...counts } = found;
    if (args.has('json')) {
      printJson(context, { ok: discrepancies === 0, ...counts, discrepancies, listed });
    }
    const summary = verificationSummary(found);
    if (!args.has('json')) out(summary);
  },
};

/** Returns a callback that prints progress, because checking millions of rows takes minutes. */
export function progressReporter({ err }: Pick<Context, 'err'>): Progress {
  return (what, rows) => err(`${what}: ${rows.toLocaleString('en-US')} checked`);
}

/** Returns the result as a sentence. Throws it as an error if there are discrepancies. */
export function verificationSummary({ discrepancies, ...counts }: Verification): string {
  if (discrepancies > 0) {
    throw new Error(
      `The ledger has ${formatCount(discrepancies, 'discrepancy', 'discrepancies')}.`,
    );
  }
  const checked = [
    formatCount(counts.accounts, 'account'),
    formatCount(counts.entries, 'entry', 'entries'),
    formatCount(counts.requests, 'request'),
  ];
  return `The ledger is consistent: ${checked.join(', ')}.`;
}

const statement: Command = {
  name: 'statement',
  summary: 'Print a monthly statement as CSV',
  options: {
    ...tenantOption,
    month: { value: '<YYYY-MM>', summary: 'Month (default: the current month)' },
  },
  async run(context) {
    const { args, write } = context;
    const { services, tenantId } = await servicesForTenant(context);
    const month = readMonth(args.text('month') ?? null, services.now());
    const statement = statementCsv(services.statements, tenantId, month, services.now());
    for await (const lines of statement) await write(lines);
  },
};

export const ledger: Topic = {
  name: 'ledger',
  summary: 'Verify the ledger and print statements',
  commands: [verify, statement],
  examples: [
    'tollgate ledger verify',
    'tollgate ledger statement --tenant acme --month 2026-02 > acme-2026-02.csv',
  ],
};
