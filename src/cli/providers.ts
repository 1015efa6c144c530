import { environment } from '../config/environment.ts';
import { loadConfig } from '../config/load.ts';
import { dialectNames } from '../config/provider-schema.ts';
import type { ProviderKeyObject } from '../contract/admin.ts';
import { rotateProviderKey } from '../control/key-rotation.ts';
import { notFound } from '../core/errors.ts';
import { definedFields, fieldsOf, objectsIn, parseJson, textOf } from '../core/json.ts';
import type { Command, Topic } from './command.ts';
import {
  configCommands,
  listCommand,
  preconditionOf,
  printObject,
  versionOption,
} from './config-objects.ts';
import { callGateway, localUrl, urlOption } from './gateway-url.ts';
import { printJson, printTable, table } from './output.ts';

const test: Command = {
  name: 'test',
  summary: 'Send a call to a provider with each of its keys',
  positional: '<name>',
  options: {
    'one-token': { summary: 'Generate one token, instead of sending a free call' },
    model: { value: '<id>', summary: 'Model for --one-token (default: a chat model)' },
    key: { value: '<name>', summary: 'Only one of several keys' },
  },
  async run(context) {
    const { args } = context;
    const { testProvider } = await context.services();
    const options = definedFields({
      call: args.has('one-token') ? ('one_token' as const) : undefined,
      model: args.text('model'),
      key: args.text('key'),
    });
    const result = await testProvider(args.positional, options);
    if (!result) throw notFound(`There is no provider "${args.positional}".`);
    if (args.has('json')) printJson(context, { data: result });
    else if (result.keys.length > 0) {
      const rows = result.keys.map(({ name, ok, status, duration_ms, message }) => [
        ...[name, ok ? 'works' : 'failed', status, `${duration_ms} ms`, message],
      ]);
      context.out(table(['KEY', 'RESULT', 'STATUS', 'TIME', 'MESSAGE'], rows));
    } else if (result.ok) context.out(result.message);
    if (!result.ok) throw new Error(result.message);
  },
};

const timeoutMs = 10_000;

/** Only a running gateway knows what its keys' requests got. */
const keys: Command = {
  name: 'keys',
  summary: 'Show the state of keys, as seen by a running gateway',
  positional: '[name]',
  options: {
    url: { value: '<url>', summary: 'URL of the gateway (default: from the configuration)' },
  },
  async run(context) {
    const { args, flags } = context;
    const token = environment.TOLLGATE_ADMIN_TOKEN;
    if (!token) throw new Error('Set TOLLGATE_ADMIN_TOKEN to the admin token of the gateway.');
    const { server } = loadConfig(flags, environment, ['server']);
    const url = `${urlOption(args) ?? localUrl(server.admin ?? server)}/admin/v1/providers`;
    const headers = { authorization: `Bearer ${token}` };
    const response = await callGateway({ method: 'GET', url, headers }, timeoutMs);
    const { data, error } = fieldsOf(parseJson(await response.text()));
    if (!response.ok) throw new Error(`${url} returned: ${textOf(fieldsOf(error).message)}`);
    const { positional: name } = args;
    const found = objectsIn(data).filter((provider) => name === '' || provider.name === name);
    if (name !== '' && found.length === 0) throw notFound(`There is no provider "${name}".`);
    const states = found.flatMap((provider) =>
      objectsIn(provider.keys).map((key) => ({ provider: textOf(provider.name), ...key })),
    ) as KeyState[];
    if (args.has('json')) return printJson(context, { data: states });
    const rows = states.map((key) => [
      ...[key.provider, key.name, key.state.replace('_', ' '), key.running_requests],
      ...[key.retry_after_seconds, key.status, key.message],
    ]);
    const head = ['PROVIDER', 'KEY', 'STATE', 'RUNNING', 'RETRY (S)', 'STATUS', 'MESSAGE'];
    printTable(context, 'providers with several keys', head, rows);
  },
};

type KeyState = ProviderKeyObject & { readonly provider: string };

const rotate: Command = {
  name: 'rotate',
  summary: 'Replace a key; the previous one stays usable for a while',
  positional: '<name>',
  options: {
    'api-key': {
      value: '<key>',
      summary: 'New key; on stdin, it stays out of the shell history',
    },
    key: { value: '<name>', summary: 'Key to replace, if the provider has several' },
    'overlap-seconds': {
      value: '<n>',
      summary: 'Seconds until the previous key is deleted (default: 86400)',
    },
    ...versionOption,
  },
  async run(context) {
    const { args } = context;
    const { positional: name } = args;
    const question = { text: `New key for ${name}`, isSecret: true };
    const body = definedFields({
      api_key: args.text('api-key') ?? (await context.input(question)).trim(),
      key: args.text('key'),
      overlap_seconds: args.number('overlap-seconds'),
    });
    const { control } = await context.services();
    printObject(context, await rotateProviderKey(control, name, body, preconditionOf(args)));
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
    keys,
    rotate,
    test,
  ],
  examples: [
    'tollgate providers set acme < acme.yaml',
    'tollgate providers change acme --api-key sk-…',
    'tollgate providers rotate acme --key team-a < key.txt',
    'tollgate providers test acme --one-token',
  ],
};
