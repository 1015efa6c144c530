import * as manage from '../auth/management/credits.ts';
import { entriesPerPage } from '../contract/admin.ts';
import { invalidRequest } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import type { Command, Context, Option, Topic } from './command.ts';
import { offsetOf, offsetOption, servicesForTenant, tenantIdOf, tenantOption } from './command.ts';
import { fields, formatCount, formatMinute, hintAtNextPage, printJson, table } from './output.ts';

const changeOptions: Readonly<Record<string, Option>> = {
  ...tenantOption,
  amount: { value: '<credits>', summary: 'Number of credits', required: true },
  note: { value: '<text>', summary: 'Reason, shown with the entry' },
  'idempotency-key': {
    value: '<text>',
    summary: 'Makes retries safe: a change with the same key is applied only once',
  },
};

const show: Command = {
  name: 'show',
  summary: "Show a tenant's balance and latest entries",
  options: { ...tenantOption, ...offsetOption },
  async run(context) {
    const { args } = context;
    const { services, tenantId } = await servicesForTenant(context);
    const offset = offsetOf(args);
    const wallet = await manage.showWallet(services, tenantId);
    const entries = await manage.listEntries(services, tenantId, offset);
    if (args.has('json')) return printJson(context, { data: { ...wallet, entries } });
    context.out(fields({ tenant: tenantId, ...wallet }));
    if (entries.length === 0) return;
    const rows = entries.map((entry) => [
      entry.id,
      formatMinute(entry.created_at),
      entry.type,
      entry.amount,
      entry.balance,
      entry.note,
    ]);
    context.out(`\n${table(['ID', 'TIME (UTC)', 'TYPE', 'AMOUNT', 'BALANCE', 'NOTE'], rows)}`);
    hintAtNextPage(context, offset, entries.length, entriesPerPage);
  },
};

const grant: Command = {
  name: 'grant',
  summary: 'Grant credits to a tenant',
  options: changeOptions,
  async run(context) {
    const amount = context.args.number('amount');
    if (typeof amount === 'number' && amount < 0) {
      const message =
        'A grant must be positive. Use "tollgate credits correct" to take credits back.';
      throw invalidRequest(message, 'amount');
    }
    await change(context, amount);
  },
};

const correct: Command = {
  name: 'correct',
  summary: 'Take credits back, but never below a balance of 0: --amount -500',
  options: changeOptions,
  async run(context) {
    const amount = context.args.number('amount');
    if (typeof amount === 'number' && amount > 0) {
      const message =
        `A correction must be negative. Write --amount -${amount}, or use ` +
        '"tollgate credits grant".';
      throw invalidRequest(message, 'amount');
    }
    await change(context, amount);
  },
};

export const credits: Topic = {
  name: 'credits',
  summary: "Show, grant, and correct a tenant's credits",
  commands: [show, grant, correct],
  examples: [
    'tollgate credits grant --tenant acme --amount 5000000 --note "Invoice 12"',
    'tollgate credits correct --tenant acme --amount -500 --note "Granted twice"',
  ],
};

async function change(context: Context, amount: unknown): Promise<void> {
  const { args } = context;
  const body = definedFields({
    amount,
    note: args.text('note'),
    idempotency_key: args.text('idempotency-key'),
  });
  const services = await context.services();
  const { entry, repeated } = await manage.changeCredits(services, tenantIdOf(args), body);
  if (args.has('json')) return printJson(context, { data: entry });
  const result = repeated
    ? 'was already recorded; nothing changed. The balance after that entry was'
    : 'was recorded. New balance:';
  const balance = entry.balance.toLocaleString('en-US');
  context.out(`Entry ${entry.id} (${formatCount(entry.amount, 'credit')}) ${result} ${balance}.`);
}
