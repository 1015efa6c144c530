import * as manage from '../auth/management/keys.ts';
import { type KeyObject, keysPerPage } from '../contract/keys.ts';
import { cacheModes, limitResets, scopes } from '../core/caller.ts';
import { definedFields } from '../core/json.ts';
import type { Args, Command, Context, Option, Topic } from './command.ts';
import { offsetOf, offsetOption, servicesForTenant, tenantIdOf, tenantOption } from './command.ts';
import { fields, formatMinute, hintAtNextPage, printJson, printTable } from './output.ts';

const positional = '<key id>';

/** What `show` prints for a key without the restriction. `change` accepts it to remove one. */
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
  limit: { value: '<credits>', summary: `Maximum spend, or "${unrestricted.limit}"` },
  'limit-reset': {
    value: limitResets.join('|'),
    summary: `How often the limit resets, or "${unrestricted['limit-reset']}"`,
  },
  'expires-at': {
    value: '<time>',
    summary: `UTC time such as 2030-01-31T00:00:00Z, or "${unrestricted['expires-at']}"`,
  },
  models: { value: '<a/b,c/*>', summary: `Allowed models, or "${unrestricted.models}"` },
  scopes: { value: '<a,b>', summary: `Any of ${scopes.join(', ')}, or "${unrestricted.scopes}"` },
  'requests-per-minute': {
    value: '<n>',
    summary: `Rate limit of this key, or "${unrestricted['requests-per-minute']}"`,
  },
  cache: {
    value: cacheModes.join('|'),
    summary: `Cache mode of this key, or "${unrestricted.cache}"`,
  },
};

/** LEFT isn't always LIMIT minus SPENT, because a limit can reset while SPENT keeps growing. */
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
  summary: "List a tenant's keys",
  options: {
    ...tenantOption,
    'include-disabled': { summary: 'Include disabled keys' },
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
      formatMinute(key.last_used_at),
    ]);
    printTable(context, page.includeDisabled ? 'keys' : 'enabled keys', header, rows);
    hintAtNextPage(context, page.offset, data.length, keysPerPage);
  },
};

const name = { value: '<text>', summary: 'Name of the key' } as const;

const create: Command = {
  name: 'create',
  summary: 'Create a key and print its secret once',
  options: {
    ...tenantOption,
    name: { ...name, required: true },
    management: { summary: 'Create a management key (sk-mgmt-…) instead of a routing key' },
    ...restrictions,
  },
  async run(context) {
    const { args } = context;
    const body = { ...fieldsIn(args), management: args.has('management') };
    const issued = await manage.createKey(await context.services(), tenantIdOf(args), body);
    printSecret(context, issued, `Key ${issued.key.id} was created.`);
  },
};

const show: Command = {
  name: 'show',
  summary: 'Show one key, without its secret',
  positional,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    const services = await context.services();
    const key = await manage.showKey(services, tenantIdOf(args), args.positional);
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
  summary: 'Change a key; settings without an option stay the same',
  positional,
  options: { ...tenantOption, name, ...restrictions },
  requiresOneOf: ['name', ...Object.keys(restrictions)],
  run: (context) => applyChange(context, fieldsIn(context.args), 'was changed'),
};

const rotate: Command = {
  name: 'rotate',
  summary: 'Replace the secret of a key; its ID and usage stay the same',
  positional,
  options: {
    ...tenantOption,
    'overlap-seconds': {
      value: '<n>',
      summary: 'Seconds until the old secret stops working (default: 0)',
    },
  },
  async run(context) {
    const { args } = context;
    const body = definedFields({ overlap_seconds: args.number('overlap-seconds') });
    const services = await context.services();
    const issued = await manage.rotateKey(services, tenantIdOf(args), args.positional, body);
    printSecret(context, issued, `Key ${issued.key.id} has a new secret.`);
  },
};

const disable: Command = {
  name: 'disable',
  summary: 'Reject a key until it is enabled again',
  positional,
  options: tenantOption,
  run: (context) => applyChange(context, { disabled: true }, 'is disabled'),
};

const enable: Command = {
  name: 'enable',
  summary: 'Accept a disabled key again',
  positional,
  options: tenantOption,
  run: (context) => applyChange(context, { disabled: false }, 'is enabled'),
};

const remove: Command = {
  name: 'delete',
  summary: 'Delete a key permanently; its logs are kept',
  positional,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    await manage.deleteKey(await context.services(), tenantIdOf(args), args.positional);
    if (args.has('json')) return printJson(context, { deleted: true });
    context.out(`Key ${args.positional} was deleted.`);
  },
};

export const keys: Topic = {
  name: 'keys',
  summary: "Manage a tenant's API keys",
  commands: [list, create, show, change, rotate, disable, enable, remove],
  examples: [
    'tollgate keys create --name "CI" --limit 500000 --limit-reset monthly',
    'tollgate keys create --tenant acme --name "Chat only" --scopes chat --models "demo/*"',
    'tollgate keys change key_0123456789abcdef --limit 900000',
    'tollgate keys rotate key_0123456789abcdef --overlap-seconds 3600',
  ],
};

/** Returns the API's request body with a field for each option that is set. */
function fieldsIn(args: Args): Record<string, unknown> {
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
  const data = await manage.changeKey(
    await context.services(),
    tenantIdOf(args),
    args.positional,
    body,
  );
  if (args.has('json')) return printJson(context, { data });
  context.out(`Key ${data.id} ${done}.`);
}

function printSecret(context: Context, { key, text }: manage.IssuedKey, sentence: string): void {
  if (context.args.has('json')) printJson(context, { data: key, key: text });
  else context.out(`${sentence}\n\n  ${text}\n\nSave it now. It won't be shown again.`);
}

function stateOf(key: KeyObject, now: number): string {
  if (key.disabled) return 'disabled';
  return key.expires_at !== null && Date.parse(key.expires_at) <= now ? 'expired' : 'active';
}
