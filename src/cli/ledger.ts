import { readMonth } from '../records/period.ts';
import { statementCsv } from '../records/statement.ts';
import type { Progress, Verification } from '../store/verify/verify.ts';
import type { Command, Context, Topic } from './command.ts';
import { servicesForTenant, tenantOption } from './command.ts';
import { counted, printJson } from './output.ts';

/** The most discrepancies listed as JSON; with more than that, mending begins with these. */
const listedMax = 1_000;

const verify: Command = {
  name: 'verify',
  summary: 'Hold balances, entries, requests and daily sums against each other',
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

/** Tells how far the check is: books with millions of rows take minutes. */
export function progressReporter({ err }: Pick<Context, 'err'>): Progress {
  return (what, rows) => err(`${what}: ${rows.toLocaleString('en-US')} checked`);
}

/** The result of a check as a sentence; thrown as an error if the books are wrong. */
export function verificationSummary({ discrepancies, ...counts }: Verification): string {
  if (discrepancies > 0) {
    const wrong = counted(discrepancies, 'discrepancy', 'discrepancies');
    throw new Error(`The books are wrong: ${wrong}.`);
  }
  const checked = [
    counted(counts.accounts, 'account'),
    counted(counts.entries, 'entry', 'entries'),
    counted(counts.requests, 'request'),
  ];
  return `The books are right: ${checked.join(', ')}.`;
}

const statement: Command = {
  name: 'statement',
  summary: 'Print the statement of a month as CSV',
  options: {
    ...tenantOption,
    month: { value: '<YYYY-MM>', summary: 'Which month (default: this one)' },
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
  summary: 'Check the books and print statements',
  commands: [verify, statement],
  examples: [
    'tollgate ledger verify',
    'tollgate ledger statement --tenant acme --month 2026-02 > acme-2026-02.csv',
  ],
};
