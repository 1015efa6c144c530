import * as manage from '../auth/management/byok.ts';
import { byokModes } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import type { Command, Topic } from './command.ts';
import { servicesForTenant, tenantIdOf, tenantOption } from './command.ts';
import { formatMinute, printJson, printTable } from './output.ts';

const positional = '<provider>';

const list: Command = {
  name: 'list',
  summary: "List a tenant's provider keys",
  options: tenantOption,
  async run(context) {
    const { args } = context;
    const { services, tenantId } = await servicesForTenant(context);
    const data = await manage.listCredentials(services, tenantId);
    if (args.has('json')) return printJson(context, { data });
    const rows = data.map((credential) => [
      credential.provider,
      credential.label,
      credential.mode,
      credential.base_url,
      formatMinute(credential.updated_at),
    ]);
    const header = ['PROVIDER', 'KEY', 'MODE', 'BASE URL', 'UPDATED (UTC)'];
    printTable(context, 'provider keys', header, rows);
  },
};

const set: Command = {
  name: 'set',
  summary: "Save a tenant's key for a provider, replacing the previous one",
  positional,
  options: {
    ...tenantOption,
    'api-key': {
      value: '<key>',
      summary:
        'The key; omit it to enter the key on stdin, so that it stays out of the shell history',
    },
    mode: {
      value: byokModes.join('|'),
      summary: 'Whether requests may fall back to shared capacity (default: byok_first)',
    },
    'base-url': {
      value: '<url>',
      summary: 'Custom base URL, if the provider allows one',
    },
  },
  async run(context) {
    const { args } = context;
    const question = { text: `API key for ${args.positional}`, isSecret: true };
    const apiKey = args.text('api-key') ?? (await context.input(question)).trim();
    if (apiKey === '') throw missingKeyError(args.positional);
    const body = definedFields({
      api_key: apiKey,
      mode: args.text('mode'),
      base_url: args.text('base-url'),
    });
    const services = await context.services();
    const data = await manage.setCredential(services, tenantIdOf(args), args.positional, body);
    if (args.has('json')) return printJson(context, { data });
    context.out(`The key ${data.label} was saved for ${data.provider} (${data.mode}).`);
  },
};

function missingKeyError(provider: string): Error {
  const example = `tollgate byok set ${provider} < key.txt`;
  return invalidRequest(`There is no key on stdin. Run "${example}".`, 'api_key');
}

const remove: Command = {
  name: 'delete',
  summary: "Delete a tenant's key for a provider",
  positional,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    await manage.deleteCredential(await context.services(), tenantIdOf(args), args.positional);
    if (args.has('json')) return printJson(context, { deleted: true });
    context.out(`The key for ${args.positional} was deleted.`);
  },
};

export const byok: Topic = {
  name: 'byok',
  summary: "Manage tenants' own provider keys",
  commands: [list, set, remove],
  examples: [
    'tollgate byok set openai --tenant acme < key.txt',
    'tollgate byok set openai --tenant acme --mode byok_only < key.txt',
    'tollgate byok delete openai --tenant acme',
  ],
};
