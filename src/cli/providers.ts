import { dialectNames } from '../config/provider-schema.ts';
import { notFound } from '../core/errors.ts';
import { textOf } from '../core/json.ts';
import type { Command, Topic } from './command.ts';
import { configCommands, listCommand } from './config-objects.ts';
import { printJson } from './output.ts';

const test: Command = {
  name: 'test',
  summary: 'Send a free call to a provider with its key',
  positional: '<name>',
  options: {},
  async run(context) {
    const { args } = context;
    const { testProvider } = await context.services();
    const result = await testProvider(args.positional);
    if (!result) throw notFound(`There is no provider "${args.positional}".`);
    if (args.has('json')) printJson(context, { data: result });
    else if (result.ok) context.out(result.message);
    if (!result.ok) throw new Error(result.message);
  },
};

export const providers: Topic = {
  name: 'providers',
  summary: 'Manage providers while gateways run',
  commands: [
    listCommand('provider', ({ dialect, base_url }) => `${textOf(dialect)} ${textOf(base_url)}`),
    ...configCommands({
      kind: 'provider',
      positional: '<name>',
      fields: {
        dialect: { value: dialectNames.join('|'), summary: 'Wire format' },
        'base-url': { value: '<url>', summary: 'Base URL' },
        'api-key': {
          value: '<key>',
          summary: 'API key; in YAML on stdin, it stays out of the shell history',
        },
      },
      documentIn: (args) => ({
        dialect: args.text('dialect'),
        base_url: args.text('base-url'),
        api_key: args.text('api-key'),
      }),
    }),
    test,
  ],
  examples: [
    'tollgate providers set acme < acme.yaml',
    'tollgate providers change acme --api-key sk-…',
    'tollgate providers test acme',
  ],
};
