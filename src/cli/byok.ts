import * as manage from '../auth/management/byok.ts';
import { byokModes } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';
import { definedFields } from '../core/json.ts';
import type { Command, Topic } from './command.ts';
import { servicesForTenant, tenantOf, tenantOption } from './command.ts';
import { minute, printJson, printTable } from './output.ts';

const operand = '<provider>';

const list: Command = {
  name: 'list',
  summary: 'List the providers that a tenant has brought a key for',
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
      minute(credential.updated_at),
    ]);
    const header = ['PROVIDER', 'KEY', 'MODE', 'BASE URL', 'UPDATED (UTC)'];
    printTable(context, 'keys of providers', header, rows);
  },
};

const set: Command = {
  name: 'set',
  summary: 'Keep the key of a tenant for a provider, in place of the one before',
  operand,
  options: {
    ...tenantOption,
    'api-key': {
      value: '<key>',
      summary: 'The key; better left out and given on standard input, where no history keeps it',
    },
    mode: {
      value: byokModes.join('|'),
      summary: 'Whether shared capacity may follow (default: byok_first)',
    },
    'base-url': {
      value: '<address>',
      summary: 'An address of its own, where the provider allows one',
    },
  },
  async run(context) {
    const { args } = context;
    const question = { text: `The key for ${args.operand}`, isSecret: true };
    const apiKey = args.text('api-key') ?? (await context.input(question)).trim();
    if (apiKey === '') throw missingKeyError(args.operand);
    const body = definedFields({
      api_key: apiKey,
      mode: args.text('mode'),
      base_url: args.text('base-url'),
    });
    const services = await context.services();
    const data = await manage.setCredential(services, tenantOf(args), args.operand, body);
    if (args.has('json')) return printJson(context, { data });
    context.out(`The key ${data.label} is kept for ${data.provider} (${data.mode}).`);
  },
};

function missingKeyError(provider: string): Error {
  const example = `tollgate byok set ${provider} < key.txt`;
  return invalidRequest(`No key came on standard input: write "${example}".`, 'api_key');
}

const remove: Command = {
  name: 'delete',
  summary: 'Forget the key of a tenant for a provider',
  operand,
  options: tenantOption,
  async run(context) {
    const { args } = context;
    await manage.deleteCredential(await context.services(), tenantOf(args), args.operand);
    if (args.has('json')) return printJson(context, { deleted: true });
    context.out(`The key for ${args.operand} was deleted.`);
  },
};

export const byok: Topic = {
  name: 'byok',
  summary: "Manage tenants' own keys at providers",
  commands: [list, set, remove],
  examples: [
    'tollgate byok set openai --tenant acme < key.txt',
    'tollgate byok set openai --tenant acme --mode byok_only < key.txt',
    'tollgate byok delete openai --tenant acme',
  ],
};
