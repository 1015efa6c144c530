import * as manage from '../auth/management/credits.ts';
import { entriesPerPage } from '../contract/admin.ts';
import { invalidRequest } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import type { Command, Context, Option, Topic } from './command.ts';
import { offsetOf, offsetOption, servicesForTenant, tenantOf, tenantOption } from './command.ts';
import { counted, fields, minute, nextPage, printJson, table } from './output.ts';

const changeOptions: Readonly<Record<string, Option>> = {
  ...tenantOption,
  amount: { value: '<credits>', summary: 'How many', required: true },
  note: { value: '<text>', summary: 'Why, for the books' },
  'idempotency-key': {
    value: '<text>',
    summary: 'Repeating the command with the same key books nothing again',
  },
};

const show: Command = {
  name: 'show',
  summary: 'Show the balance of a tenant and its latest entries',
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
      minute(entry.created_at),
      entry.type,
      entry.amount,
      entry.balance,
      entry.note,
    ]);
    context.out(`\n${table(['ID', 'TIME (UTC)', 'TYPE', 'AMOUNT', 'BALANCE', 'NOTE'], rows)}`);
    nextPage(context, offset, entries.length, entriesPerPage);
  },
};

const grant: Command = {
  name: 'grant',
  summary: 'Give credits to a tenant',
  options: changeOptions,
  async run(context) {
    const amount = context.args.number('amount');
    if (typeof amount === 'number' && amount < 0) {
      const message = 'A grant gives credits; use "tollgate credits correct" to take them back.';
      throw invalidRequest(message, 'amount');
    }
    await change(context, amount);
  },
};

const correct: Command = {
  name: 'correct',
  summary: 'Take credits back, never below zero: --amount -500',
  options: changeOptions,
  async run(context) {
    const amount = context.args.number('amount');
    if (typeof amount === 'number' && amount > 0) {
      const message = `A correction takes credits back: write --amount -${amount}, or use grant.`;
      throw invalidRequest(message, 'amount');
    }
    await change(context, amount);
  },
};

export const credits: Topic = {
  name: 'credits',
  summary: 'Show, grant and correct the credits of a tenant',
  commands: [show, grant, correct],
  examples: [
    'tollgate credits grant --tenant acme --amount 5000000 --note "Invoice 12"',
    'tollgate credits correct --tenant acme --amount -500 --note "Booked twice"',
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
  const { entry, repeated } = await manage.changeCredits(services, tenantOf(args), body);
  if (args.has('json')) return printJson(context, { data: entry });
  const sentence = repeated ? 'was booked before; nothing changed' : 'was booked';
  context.out(
    `Entry ${entry.id} of ${counted(entry.amount, 'credit')} ${sentence}. ` +
      `Balance after it: ${entry.balance.toLocaleString('en-US')}.`,
  );
}
