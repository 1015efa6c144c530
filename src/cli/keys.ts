import * as manage from '../auth/management/keys.ts';
import { type KeyObject, keysPerPage } from '../contract/keys.ts';
import { cacheModes, limitResets, scopes } from '../core/caller.ts';
import { definedFields } from '../core/json.ts';
import type { Args, Command, Context, Option, Topic } from './command.ts';
import { offsetOf, offsetOption, servicesForTenant, tenantOf, tenantOption } from './command.ts';
import { fields, minute, nextPage, printJson, printTable } from './output.ts';

const operand = '<key id>';

/**
 * What the output shows for a key without this restriction, and what the option takes to lift it.
 */
const unrestricted = {
  limit: 'none',
  'limit-reset': 'never',
  'expires-at': 'never',
  models: 'all',
  scopes: 'all',
  'requests-per-minute': 'default',
  cache: 'default',
} as const;

const restrictions: Readonly<Record<keyof typeof unrestricted, Option>> = {
  limit: { value: '<credits>', summary: `The most it may spend, or "${unrestricted.limit}"` },
  'limit-reset': {
    value: limitResets.join('|'),
    summary: `How often the limit starts anew, or "${unrestricted['limit-reset']}"`,
  },
  'expires-at': {
    value: '<time>',
    summary: `UTC, as 2030-01-31T00:00:00Z, or "${unrestricted['expires-at']}"`,
  },
  models: { value: '<a/b,c/*>', summary: `Models it may use, or "${unrestricted.models}"` },
  scopes: { value: '<a,b>', summary: `Of ${scopes.join(', ')}, or "${unrestricted.scopes}"` },
  'requests-per-minute': {
    value: '<n>',
    summary: `Its own rate limit, or "${unrestricted['requests-per-minute']}"`,
  },
  cache: { value: cacheModes.join('|'), summary: `Its own cache mode, or "${unrestricted.cache}"` },
};

/**
 * LEFT has its own column: LIMIT minus SPENT is not what is left, because a limit may start again
 * each day, week or month while SPENT goes on.
 */
const header = [
  'ID',
  'KEY',
  'NAME',
  'STATE',
  'SPENT',
  'LIMIT',
  'LEFT',
  'RESETS',
  'LAST USED (UTC)',
];

const list: Command = {
  name: 'list',
  summary: 'List the keys of a tenant',
  options: {
    ...tenantOption,
    'include-disabled': { summary: 'Disabled keys too' },
    ...offsetOption,
  },
  async run(context) {
    const { args } = context;
    const { services, tenantId } = await servicesForTenant(context);
    const page = { offset: offsetOf(args), includeDisabled: args.has('include-disabled') };
    const data = await manage.listKeys(services, tenantId, page);
    if (args.has('json')) return printJson(context, { data });
    const rows = data.map((key) => [
      key.id,
      key.label,
      key.name,
      stateOf(key, services.now()),
      key.usage,
      key.limit,
      key.limit_remaining,
      key.limit_reset,
      minute(key.last_used_at),
    ]);
    printTable(context, page.includeDisabled ? 'keys' : 'enabled keys', header, rows);
    nextPage(context, page.offset, data.length, keysPerPage);
  },
};

const name = { value: '<text>', summary: 'What the key is for' } as const;

const create: Command = {
  name: 'create',
  summary: 'Create a key and show its secret, once',
  options: {
    ...tenantOption,
    name: { ...name, required: true },
    management: { summary: 'A management key (sk-mgmt-…), not a routing key' },
    ...restrictions,
  },
  async run(context) {
    const { args } = context;
    const body = { ...settingsIn(args), management: args.has('management') };
    const issued = await manage.createKey(await context.services(), tenantOf(args), body);
    printSecret(context, issued, `Key ${issued.key.id} was created.`);
  },
};

const show: Command = {
  name: 'show',
  summary: 'Show one key, without its secret',
  operand,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    const services = await context.services();
    const key = await manage.showKey(services, tenantOf(args), args.operand);
    if (args.has('json')) return printJson(context, { data: key });
    context.out(
      fields({
        id: key.id,
        key: key.label,
        name: key.name,
        state: stateOf(key, services.now()),
        spent: key.usage,
        'spent today': key.usage_daily,
        'spent this week': key.usage_weekly,
        'spent this month': key.usage_monthly,
        limit: key.limit ?? unrestricted.limit,
        'limit remaining': key.limit_remaining,
        'limit resets': key.limit_reset ?? unrestricted['limit-reset'],
        models: key.models?.join(', ') ?? unrestricted.models,
        scopes: key.scopes?.join(', ') ?? unrestricted.scopes,
        'requests per minute': key.requests_per_minute ?? unrestricted['requests-per-minute'],
        cache: key.cache ?? unrestricted.cache,
        created: key.created_at,
        updated: key.updated_at,
        expires: key.expires_at ?? unrestricted['expires-at'],
        'last used': key.last_used_at ?? 'never',
      }),
    );
  },
};

const change: Command = {
  name: 'change',
  summary: 'Change what a key may do; what is not named stays',
  operand,
  options: { ...tenantOption, name, ...restrictions },
  changes: ['name', ...Object.keys(restrictions)],
  run: (context) => applyChange(context, settingsIn(context.args), 'was changed'),
};

const rotate: Command = {
  name: 'rotate',
  summary: 'Replace the secret of a key; its id and its usage stay',
  operand,
  options: {
    ...tenantOption,
    'overlap-seconds': {
      value: '<n>',
      summary: 'How long the old secret still works (default: 0)',
    },
  },
  async run(context) {
    const { args } = context;
    const body = definedFields({ overlap_seconds: args.number('overlap-seconds') });
    const services = await context.services();
    const issued = await manage.rotateKey(services, tenantOf(args), args.operand, body);
    printSecret(context, issued, `Key ${issued.key.id} has a new secret.`);
  },
};

const disable: Command = {
  name: 'disable',
  summary: 'Refuse a key until it is enabled again',
  operand,
  options: tenantOption,
  run: (context) => applyChange(context, { disabled: true }, 'is disabled'),
};

const enable: Command = {
  name: 'enable',
  summary: 'Accept a disabled key again',
  operand,
  options: tenantOption,
  run: (context) => applyChange(context, { disabled: false }, 'is enabled'),
};

const remove: Command = {
  name: 'delete',
  summary: 'Delete a key for good; its logs stay',
  operand,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    await manage.deleteKey(await context.services(), tenantOf(args), args.operand);
    if (args.has('json')) return printJson(context, { deleted: true });
    context.out(`Key ${args.operand} was deleted.`);
  },
};

export const keys: Topic = {
  name: 'keys',
  summary: 'Manage the API keys of a tenant',
  commands: [list, create, show, change, rotate, disable, enable, remove],
  examples: [
    'tollgate keys create --name "CI" --limit 500000 --limit-reset monthly',
    'tollgate keys create --tenant acme --name "Chat only" --scopes chat --models "demo/*"',
    'tollgate keys change key_0123456789abcdef --limit 900000',
    'tollgate keys rotate key_0123456789abcdef --overlap-seconds 3600',
  ],
};

/** The fields of the API's request body for the options that were given. */
function settingsIn(args: Args): Record<string, unknown> {
  const orNull = <T>(name: keyof typeof unrestricted, value: T) =>
    args.text(name) === unrestricted[name] ? null : value;
  return definedFields({
    name: args.text('name'),
    limit: orNull('limit', args.number('limit')),
    limit_reset: orNull('limit-reset', args.text('limit-reset')),
    expires_at: orNull('expires-at', args.text('expires-at')),
    models: orNull('models', args.list('models')),
    scopes: orNull('scopes', args.list('scopes')),
    requests_per_minute: orNull('requests-per-minute', args.number('requests-per-minute')),
    cache: orNull('cache', args.text('cache')),
  });
}

async function applyChange(context: Context, body: object, done: string): Promise<void> {
  const { args } = context;
  const data = await manage.changeKey(await context.services(), tenantOf(args), args.operand, body);
  if (args.has('json')) return printJson(context, { data });
  context.out(`Key ${data.id} ${done}.`);
}

function printSecret(context: Context, { key, text }: manage.IssuedKey, sentence: string): void {
  if (context.args.has('json')) printJson(context, { data: key, key: text });
  else context.out(`${sentence}\n\n  ${text}\n\nKeep it now: it is not shown again.`);
}

function stateOf(key: KeyObject, now: number): string {
  if (key.disabled) return 'disabled';
  return key.expires_at !== null && Date.parse(key.expires_at) <= now ? 'expired' : 'active';
}
