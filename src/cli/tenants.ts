import { showWallet } from '../auth/management/credits.ts';
import * as manage from '../auth/management/tenants.ts';
import { type TenantFields, tenantsPerPage } from '../contract/admin.ts';
import { definedFields } from '../core/json.ts';
import type { Args, Command, Context, Topic } from './command.ts';
import { offsetOf, offsetOption } from './command.ts';
import { fields, formatMinute, hintAtNextPage, printJson, printTable } from './output.ts';
import { commandLine } from './own-command.ts';

const name = { value: '<text>', summary: 'Display name' } as const;

/** What `show` prints for a limit that isn't set. `change` accepts the same word to remove one. */
const unrestricted = 'default';

const limits = {
  'requests-per-minute': { value: '<n>', summary: "Rate limit of all the tenant's keys together" },
  'concurrent-requests': { value: '<n>', summary: 'Maximum number of concurrent requests' },
  plan: { value: '<name>', summary: 'The plan whose prices the tenant pays' },
} as const;

const list: Command = {
  name: 'list',
  summary: 'List tenants and their balances',
  options: offsetOption,
  async run(context) {
    const services = await context.services();
    const offset = offsetOf(context.args);
    const tenants = await manage.listTenants(services, { offset });
    const data = await Promise.all(
      tenants.map(async (tenant) => ({
        ...tenant,
        credits: await showWallet(services, tenant.id),
      })),
    );
    if (context.args.has('json')) return printJson(context, { data });
    const rows = data.map((tenant) => [
      tenant.id,
      tenant.name,
      stateOf(tenant),
      tenant.credits.total,
      tenant.credits.held,
      formatMinute(tenant.created_at),
    ]);
    const header = ['ID', 'NAME', 'STATE', 'CREDITS', 'HELD', 'CREATED (UTC)'];
    printTable(context, 'tenants', header, rows);
    hintAtNextPage(context, offset, data.length, tenantsPerPage);
  },
};

const create: Command = {
  name: 'create',
  createsStore: true,
  summary: 'Create a tenant',
  options: {
    name: { ...name, required: true },
    id: { value: '<id>', summary: 'ID, such as "acme" (default: generated)' },
    ...limits,
  },
  async run(context) {
    const { args } = context;
    const body = definedFields({ id: args.text('id'), name: args.text('name'), ...limitsIn(args) });
    const tenant = await manage.createTenant(await context.services(), body);
    const grant = commandLine(
      'credits grant',
      `--tenant ${tenant.id} --amount 1000000`,
      context.flags,
    );
    await print(context, tenant, `Tenant ${tenant.id} was created. To grant it credits: ${grant}`);
  },
};

const show: Command = {
  name: 'show',
  summary: 'Show a tenant',
  positional: '<tenant id>',
  options: {},
  async run(context) {
    await print(
      context,
      await manage.showTenant(await context.services(), context.args.positional),
    );
  },
};

const rename: Command = {
  name: 'rename',
  summary: 'Rename a tenant',
  positional: '<tenant id>',
  options: { name: { ...name, required: true } },
  run: (context) => applyChange(context, { name: context.args.text('name') }, 'was renamed'),
};

const change: Command = {
  name: 'change',
  summary: `Change a tenant's limits or plan; "${unrestricted}" removes one`,
  positional: '<tenant id>',
  options: limits,
  requiresOneOf: Object.keys(limits),
  run: (context) => applyChange(context, limitsIn(context.args), 'was changed'),
};

const disable: Command = {
  name: 'disable',
  summary: 'Reject all keys of a tenant',
  positional: '<tenant id>',
  options: {},
  run: (context) => applyChange(context, { disabled: true }, 'is disabled'),
};

const enable: Command = {
  name: 'enable',
  summary: 'Accept the keys of a tenant again',
  positional: '<tenant id>',
  options: {},
  run: (context) => applyChange(context, { disabled: false }, 'is enabled'),
};

export const tenants: Topic = {
  name: 'tenants',
  summary: 'Manage tenants: the owners of keys, credits, and logs',
  commands: [list, create, show, rename, change, disable, enable],
  examples: [
    'tollgate tenants create --name "Acme Ltd" --id acme',
    'tollgate tenants change acme --requests-per-minute 1200',
    'tollgate tenants disable acme',
  ],
};

/** Returns the API's request body with a field for each option that is set. */
function limitsIn(args: Args): Record<string, unknown> {
  const orNull = (name: 'requests-per-minute' | 'concurrent-requests') =>
    args.text(name) === unrestricted ? null : args.number(name);
  return definedFields({
    requests_per_minute: orNull('requests-per-minute'),
    concurrent_requests: orNull('concurrent-requests'),
    plan: args.text('plan') === unrestricted ? null : args.text('plan'),
  });
}

async function applyChange(context: Context, body: object, done: string): Promise<void> {
  const { positional } = context.args;
  const tenant = await manage.changeTenant(await context.services(), positional, body);
  await print(context, tenant, `Tenant ${tenant.id} ${done}.`);
}

/** Prints the sentence after a change, or the full record for `show` and `--json`. */
async function print(context: Context, tenant: TenantFields, sentence?: string): Promise<void> {
  const credits = await showWallet(await context.services(), tenant.id);
  if (context.args.has('json')) return printJson(context, { data: { ...tenant, credits } });
  if (sentence !== undefined) return context.out(sentence);
  context.out(
    fields({
      id: tenant.id,
      name: tenant.name,
      state: stateOf(tenant),
      credits: credits.total,
      'credits held': credits.held,
      'requests per minute': tenant.requests_per_minute ?? unrestricted,
      'concurrent requests': tenant.concurrent_requests ?? unrestricted,
      plan: tenant.plan ?? unrestricted,
      created: tenant.created_at,
      updated: tenant.updated_at,
    }),
  );
}

function stateOf({ disabled }: TenantFields): string {
  return disabled ? 'disabled' : 'active';
}
