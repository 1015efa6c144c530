/** Compares the docs with the code: options, errors, routes, providers, and modules. */
import { describe, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { commonOptions } from '../../src/cli/command.ts';
import { topics } from '../../src/cli/topics.ts';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { dialectNames } from '../../src/config/provider-schema.ts';
import { configFileSchema } from '../../src/config/schema.ts';
import type { ErrorShape } from '../../src/contract/errors.ts';
import { errorTable, GatewayError } from '../../src/core/errors.ts';
import { isObject } from '../../src/core/json.ts';
import type { Schema } from '../../src/core/schema.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { dialects } from '../../src/dialects/registry.ts';
import { errorReply } from '../../src/http/reply.ts';
import { Exchange } from '../../src/http/routes.ts';
import { routeFactories, routesInCode } from '../support/routes-in-code.ts';

const root = join(import.meta.dir, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

/** Returns the table rows that start with a code span: its text and the other cells. */
function rowsOf(text: string): { readonly name: string; readonly cells: readonly string[] }[] {
  return [...text.matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm)].map(([, name = '', rest = '']) => ({
    name,
    cells: rest.split('|').map((cell) => cell.trim()),
  }));
}

const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

/** Returns the text below a second-level heading. */
function section(text: string, heading: string): string {
  const [, body = ''] = text.split(new RegExp(`^## ${heading}$`, 'm'));
  expect(body).not.toBe('');
  return body.split(/^## /m)[0] ?? '';
}

/** Quirks and prices can be set in several sections and are documented once. */
const documentedPath = (path: string) =>
  path
    .replace(/^(?:providers\.<name>|models\[\]\.endpoints\[\])\.quirks\./, 'quirks.')
    .replace(
      /^(?:prices\[\]\.pricing|plans\.<name>\.surcharge)\./,
      'models[].endpoints[].pricing.',
    );

/** Returns the paths of all options that hold a value, with `<name>` and `[]` for any entry. */
function optionsOf(schema: Schema, path = ''): string[] {
  const branches = [schema, ...(schema.anyOf ?? [])];
  const found = branches.flatMap((branch) => [
    ...Object.entries(branch.properties ?? {}).flatMap(([name, field]) =>
      optionsOf(field, path === '' ? name : `${path}.${name}`),
    ),
    ...Object.values(branch.patternProperties ?? {}).flatMap((field) =>
      field.properties ? optionsOf(field, `${path}.<name>`) : [],
    ),
    ...(itemsOf(branch) ? optionsOf(itemsOf(branch) ?? {}, `${path}[]`) : []),
  ]);
  return found.length > 0 ? found : [documentedPath(path)];
}

/** Returns the schema of a list's items that are sections. Some lists also accept texts. */
function itemsOf({ items }: Schema): Schema | undefined {
  return [...(items ? [items] : []), ...(items?.anyOf ?? [])].find(({ properties }) => properties);
}

/** Returns the paths of the known options that a file sets. */
function optionsIn(data: unknown, schema: Schema, path = ''): string[] {
  const branches = [schema, ...(schema.anyOf ?? [])];
  const properties = branches.find((branch) => branch.properties)?.properties;
  const named = branches.flatMap((branch) => Object.values(branch.patternProperties ?? {}))[0];
  const items = branches.map(itemsOf).find((found) => found);
  if (Array.isArray(data) && items) {
    return data.filter(isObject).flatMap((item) => optionsIn(item, items, `${path}[]`));
  }
  if (isObject(data) && properties) {
    return Object.entries(data).flatMap(([name, field]) =>
      optionsIn(field, properties[name] ?? {}, path === '' ? name : `${path}.${name}`),
    );
  }
  if (isObject(data) && named?.properties) {
    return Object.values(data).flatMap((field) => optionsIn(field, named, `${path}.<name>`));
  }
  return [documentedPath(path)];
}

/** Loads a configuration and records every environment variable that is read. */
function load(text: string, environment: Readonly<Record<string, string>> = {}) {
  const variables = new Set<string>();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-docs-'));
  const file = join(folder, 'tollgate.yaml');
  writeFileSync(file, text);
  const all: Record<string, string> = { ...environment, TOLLGATE_CONFIG: file };
  const recording = new Proxy(all, {
    get(target, name) {
      if (typeof name === 'string' && name !== '') variables.add(name);
      return typeof name === 'string' ? target[name] : undefined;
    },
  });
  try {
    return { config: loadConfig({}, recording), variables };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('docs/configuration.md', () => {
  const page = read('docs/configuration.md');
  const example = read('tollgate.example.yaml');
  const schema: Schema = configFileSchema as object;
  const options = sorted(optionsOf(schema));

  test('is checked against all options of the schema', () => {
    expect(options).toContain('server.port');
    expect(options).toContain('redis');
    expect(options).toContain('tools.web_search.url');
    expect(options).toContain('providers.<name>.headers');
    expect(options).toContain('quirks.drop_params');
    expect(options).toContain('models[].input_modalities');
    expect(options).toContain('models[].endpoints[].pricing.cache_read');
  });

  test('documents every option and no other', () => {
    const rows = rowsOf(section(page, 'Configuration file')).map(({ name }) => name);
    expect(sorted(rows)).toEqual(options);
    expect(rows.length).toBe(options.length);
  });

  test('has an example, tollgate.example.yaml, with every option', () => {
    expect(sorted(optionsIn(parse(example), schema))).toEqual(options);
  });

  test('has an example that loads if its variables are set', () => {
    const mentioned = [...example.matchAll(/^[^#\n]*\$\{(\w+)\}/gm)].map(([, name = '']) => name);
    expect(mentioned).toEqual(['OPENAI_API_KEY']);
    const environment = Object.fromEntries(mentioned.map((name) => [name, 'sk-example']));
    const { config } = load(example, environment);
    expect(config.models.map(({ id }) => id)).toContain('acme/chat-large');
    expect(config.providers.get('openai')?.apiKey?.reveal()).toBe('sk-example');
  });

  test('has an example that shows the defaults', () => {
    const { config: fromExample } = load(example, { OPENAI_API_KEY: 'sk-example' });
    const { config: defaults } = load('');
    const general = ({ server, dataDir, database, redis, objects, ...rest }: Config) => ({
      server: { ...server, publicUrl: undefined },
      locations: [dataDir, database.reveal(), redis, objects.reveal()],
      numbers: [rest.creditsPerUsd, rest.limits, rest.cache, rest.billing],
    });
    expect(general(fromExample)).toEqual(general(defaults));
    const vllm = fromExample.providers.get('my-vllm');
    const { config: minimal } = load('providers: {a: {dialect: openai, base_url: "http://a/v1"}}');
    expect(vllm?.timeoutMs).toBe(minimal.providers.get('a')?.timeoutMs ?? 0);
    expect(vllm?.idleTimeoutMs).toBe(minimal.providers.get('a')?.idleTimeoutMs ?? 0);
  });

  test('documents exactly the environment variables that are read', () => {
    const { variables } = load('');
    const documented = rowsOf(section(page, 'Environment variables')).map(({ name }) => name);
    // These variables configure the runtime.
    const program = read('src/cli/own-command.ts');
    const runtime = [...program.matchAll(/^ {2}([A-Z_]+): '/gm)].map(([, name = '']) => name);
    expect(runtime.length).toBeGreaterThan(0);
    expect(sorted(documented)).toEqual(sorted([...variables, ...runtime]));
  });

  test('documents every command with its options', () => {
    const part = section(page, 'Command line');
    const documented = rowsOf(part).map(
      ({ name, cells }) => `${name}: ${sorted(codeIn(cells[0] ?? '')).join(' ')}`,
    );
    const actual = topics.flatMap(({ name, commands }) =>
      commands.map((command) => {
        const line = ['tollgate', name, command.name].filter((part) => part !== '').join(' ');
        return `${line}: ${sorted(Object.keys(command.options).map((o) => `--${o}`)).join(' ')}`;
      }),
    );
    expect(sorted(documented)).toEqual(sorted(actual));
    const [intro = ''] = part.split('\n|');
    const common = codeIn(intro).filter((code) => /^--\w/.test(code));
    expect(sorted(common.map((code) => code.split(' ')[0] ?? ''))).toEqual(
      sorted(Object.keys(commonOptions).map((name) => `--${name}`)),
    );
  });
});

describe('docs/errors.md', () => {
  const page = read('docs/errors.md');
  const symbols = Object.entries(errorTable);

  test('has one section per error', () => {
    const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
    expect(headings).toEqual(['Errors in streams', ...Object.keys(errorTable)]);
  });

  test.each(symbols)('states the status, cause, and advice of %s', (symbol, row) => {
    const { status, blame, retryHelps } = row;
    const advice = retryHelps ? 'retry later' : "don't retry";
    const cause = blame === 'upstream' ? 'provider' : blame;
    const line = `Status ${status} · caused by the ${cause} · ${advice}`;
    expect(section(page, symbol)).toStartWith(`\n\n${line}\n\n`);
  });

  async function errorBody(shape: ErrorShape, error: GatewayError): Promise<unknown> {
    const exchange = new Exchange(new Request('http://gateway/'));
    exchange.errorShape = shape;
    const text = await errorReply(exchange, error).text();
    return JSON.parse(text.replace(exchange.requestId, '…'));
  }

  test.each(symbols)('shows %s in the four shapes that clients get', async (symbol) => {
    const [, block = ''] = /^```json\n([\s\S]*?)^```$/m.exec(section(page, symbol)) ?? [];
    const shown = block
      .trim()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
    const [first] = shown;
    const firstError = isObject(first) && isObject(first.error) ? first.error : {};
    const error = new GatewayError(symbol as keyof typeof errorTable, String(firstError.message), {
      ...(typeof firstError.param === 'string' ? { param: firstError.param } : {}),
    });
    const shapes = ['chat', 'plain', 'images', 'messages'] as const;
    expect(shown).toEqual(await Promise.all(shapes.map((shape) => errorBody(shape, error))));
  });
});

describe('routes', () => {
  test('are all registered in compose/routes.ts', async () => {
    const registration = read('src/compose/routes.ts');
    const names = [...(await routeFactories()).keys()];
    expect(names).toContain('chatRoutes');
    expect(names.filter((name) => !registration.includes(`...${name}(`))).toEqual([]);
  });

  test('are all documented in docs/api.md with their access and scope', async () => {
    const actual = (await routesInCode()).map((route) => {
      const scope = 'scope' in route && route.scope ? `\`${route.scope}\`` : '';
      return `${route.method} ${route.path.replace('{.+}', '')} | ${route.access} | ${scope}`;
    });
    expect(actual).toContain('POST /v1/chat/completions | routing | `chat`');
    const documented = rowsOf(read('docs/api.md'))
      .filter(({ name }) => /^[A-Z]+ \//.test(name))
      .map(({ name, cells }) => `${name} | ${cells[0]} | ${cells[1]}`);
    expect(documented.toSorted()).toEqual(actual.toSorted());
  });
});

describe('docs/providers.md', () => {
  const page = read('docs/providers.md');

  test('lists the built-in providers', () => {
    const documented = rowsOf(section(page, 'Built-in providers')).map(({ name, cells }) =>
      [name, ...cells.flatMap(codeIn)].join(' '),
    );
    const actual = builtinCatalog.providers.map((provider) =>
      [provider.name, provider.api_key_env, provider.dialect, provider.base_url].join(' '),
    );
    expect(documented).toEqual(actual);
  });

  test('matches the README, which lists providers by the features of their models', () => {
    const keysFor = (matches: (model: (typeof builtinCatalog.models)[number]) => boolean) => {
      const endpoints = builtinCatalog.models.filter(matches).flatMap(({ endpoints: all }) => all);
      const names = new Set(endpoints.map(({ provider }) => provider));
      const providers = builtinCatalog.providers.filter(({ name }) => names.has(name));
      return sorted(providers.map(({ api_key_env }) => api_key_env));
    };
    const withFeature = (...features: readonly string[]) =>
      keysFor((model) => (model.features ?? []).some((feature) => features.includes(feature)));
    const nonChat = ['embeddings', 'transcription'];
    const table = section(read('README.md'), 'Real models').matchAll(
      /^\| (\w+)[^|]*\| (`[^|]+)\|$/gm,
    );
    expect(
      Object.fromEntries([...table].map(([, kind, set = '']) => [kind, sorted(codeIn(set))])),
    ).toEqual({
      chat: keysFor(
        ({ features, output_modalities }) =>
          output_modalities.includes('text') && !features?.some((name) => nonChat.includes(name)),
      ),
      embeddings: withFeature('embeddings'),
      speech: withFeature('speech'),
      transcription: withFeature('transcription'),
      images: withFeature('image_generation', 'image_edit'),
    });
    const [opening = ''] = read('README.md').split('```');
    expect(opening).toMatch(/OpenAI,\s+Anthropic,\s+Google,\s+and\s+more/);
  });

  test('lists the dialects with their features', () => {
    const body = { model: 'a/b', messages: [{ role: 'user', content: 'Hello!' }] };
    const chat = openAiClientRequest(readChatRequest(body, { text: '', bytes: new Uint8Array() }));
    const actual = dialectNames.map((dialect) => {
      const { embeddings, images, speech, transcription } = dialects[dialect];
      const features = [embeddings, images, speech, transcription].map((side) =>
        side ? 'yes' : '',
      );
      return [dialect, chat.adapterFor(dialect) ? 'yes' : 'not yet', ...features].join(': ');
    });
    const rows = rowsOf(section(page, 'Dialects'));
    expect(sorted(rows.map(({ name, cells }) => [name, ...cells].join(': ')))).toEqual(
      sorted(actual),
    );
  });
});

describe('ARCHITECTURE.md', () => {
  test('lists every module of src', () => {
    const modules = readdirSync(join(root, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `${entry.name}/`);
    const documented = rowsOf(section(read('ARCHITECTURE.md'), 'Modules')).map(({ name }) => name);
    expect(sorted(documented)).toEqual(sorted(modules));
  });
});
