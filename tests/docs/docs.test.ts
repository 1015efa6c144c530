/** The documents say what the code does, and the code does nothing that they do not say. */
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

/** The cells of every table row that starts with a code span; the first one is unwrapped. */
function rowsOf(text: string): { readonly name: string; readonly cells: readonly string[] }[] {
  return [...text.matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm)].map(([, name = '', rest = '']) => ({
    name,
    cells: rest.split('|').map((cell) => cell.trim()),
  }));
}

const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

/** Without the part between two headings of the second level, everything is the section. */
function section(text: string, heading: string): string {
  const [, body = ''] = text.split(new RegExp(`^## ${heading}$`, 'm'));
  expect(body).not.toBe('');
  return body.split(/^## /m)[0] ?? '';
}

/** Quirks stand in two places of the file and are documented once. */
const oneSpelling = (path: string) =>
  path.replace(/^(?:providers\.<name>|models\[\]\.endpoints\[\])\.quirks\./, 'quirks.');

/** Paths of the options that hold a value; `<name>` and `[]` stand for what the writer chooses. */
function optionsOf(schema: Schema, path = ''): string[] {
  const branches = [schema, ...(schema.anyOf ?? [])];
  const found = branches.flatMap((branch) => [
    ...Object.entries(branch.properties ?? {}).flatMap(([name, field]) =>
      optionsOf(field, path === '' ? name : `${path}.${name}`),
    ),
    ...Object.values(branch.patternProperties ?? {}).flatMap((field) =>
      field.properties ? optionsOf(field, `${path}.<name>`) : [],
    ),
    ...(branch.items?.properties ? optionsOf(branch.items, `${path}[]`) : []),
  ]);
  return found.length > 0 ? found : [oneSpelling(path)];
}

/** The options that a file sets, in the same spelling, as far as the schema knows them. */
function optionsIn(data: unknown, schema: Schema, path = ''): string[] {
  const branches = [schema, ...(schema.anyOf ?? [])];
  const properties = branches.find((branch) => branch.properties)?.properties;
  const named = branches.flatMap((branch) => Object.values(branch.patternProperties ?? {}))[0];
  const items = branches.find((branch) => branch.items)?.items;
  if (Array.isArray(data) && items?.properties) {
    return data.flatMap((item) => optionsIn(item, items, `${path}[]`));
  }
  if (isObject(data) && properties) {
    return Object.entries(data).flatMap(([name, field]) =>
      optionsIn(field, properties[name] ?? {}, path === '' ? name : `${path}.${name}`),
    );
  }
  if (isObject(data) && named?.properties) {
    return Object.values(data).flatMap((field) => optionsIn(field, named, `${path}.<name>`));
  }
  return [oneSpelling(path)];
}

/** Loads a configuration and notes every environment variable that is asked for. */
function load(text: string, environment: Readonly<Record<string, string>> = {}) {
  const asked = new Set<string>();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-docs-'));
  const file = join(folder, 'tollgate.yaml');
  writeFileSync(file, text);
  const all: Record<string, string> = { ...environment, TOLLGATE_CONFIG: file };
  const watched = new Proxy(all, {
    get(target, name) {
      if (typeof name === 'string' && name !== '') asked.add(name);
      return typeof name === 'string' ? target[name] : undefined;
    },
  });
  try {
    return { config: loadConfig({}, watched), asked };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('the configuration', () => {
  const page = read('docs/configuration.md');
  const example = read('tollgate.example.yaml');
  const schema: Schema = configFileSchema as object;
  const options = sorted(optionsOf(schema));

  test('has options that a walk over the schema finds', () => {
    expect(options).toContain('server.port');
    expect(options).toContain('redis');
    expect(options).toContain('tools.web_search.url');
    expect(options).toContain('providers.<name>.headers');
    expect(options).toContain('quirks.drop_params');
    expect(options).toContain('models[].input_modalities');
    expect(options).toContain('models[].endpoints[].pricing.cache_read');
  });

  test('is documented option by option, and no other option is', () => {
    const rows = rowsOf(section(page, 'Configuration file')).map(({ name }) => name);
    expect(sorted(rows)).toEqual(options);
    expect(rows.length).toBe(options.length);
  });

  test('is shown whole in tollgate.example.yaml', () => {
    expect(sorted(optionsIn(parse(example), schema))).toEqual(options);
  });

  test('of tollgate.example.yaml loads when the variables it mentions are set', () => {
    const mentioned = [...example.matchAll(/^[^#\n]*\$\{(\w+)\}/gm)].map(([, name = '']) => name);
    expect(mentioned).toEqual(['OPENAI_API_KEY']);
    const environment = Object.fromEntries(mentioned.map((name) => [name, 'sk-example']));
    const { config } = load(example, environment);
    expect(config.models.map(({ id }) => id)).toContain('acme/chat-large');
    expect(config.providers.get('openai')?.apiKey?.reveal()).toBe('sk-example');
  });

  test('of tollgate.example.yaml shows the defaults', () => {
    const { config: written } = load(example, { OPENAI_API_KEY: 'sk-example' });
    const { config: silent } = load('');
    const general = ({ server, dataDir, database, redis, objects, ...rest }: Config) => ({
      server: { ...server, publicUrl: undefined },
      addresses: [dataDir, database.reveal(), redis, objects.reveal()],
      numbers: [rest.creditsPerUsd, rest.limits, rest.cache, rest.billing],
    });
    expect(general(written)).toEqual(general(silent));
    const own = written.providers.get('my-vllm');
    const { config: bare } = load('providers: {a: {dialect: openai, base_url: "http://a/v1"}}');
    expect(own?.timeoutMs).toBe(bare.providers.get('a')?.timeoutMs ?? 0);
    expect(own?.idleTimeoutMs).toBe(bare.providers.get('a')?.idleTimeoutMs ?? 0);
  });

  test('reads exactly the environment variables that are documented', () => {
    const { asked } = load('');
    const documented = rowsOf(section(page, 'Environment variables')).map(({ name }) => name);
    // Variables that are not settings of ours but of the runtime.
    const setUp = read('src/cli/program.ts');
    const runtime = [...setUp.matchAll(/^ {2}([A-Z_]+): '/gm)].map(([, name = '']) => name);
    expect(runtime.length).toBeGreaterThan(0);
    expect(sorted(documented)).toEqual(sorted([...asked, ...runtime]));
  });

  test('has a command line that is documented command by command, option by option', () => {
    const part = section(page, 'Command line');
    const documented = rowsOf(part).map(
      ({ name, cells }) => `${name}: ${sorted(codeIn(cells[0] ?? '')).join(' ')}`,
    );
    const real = topics.flatMap(({ name, commands }) =>
      commands.map((command) => {
        const words = ['tollgate', name, command.name].filter((word) => word !== '').join(' ');
        return `${words}: ${sorted(Object.keys(command.options).map((o) => `--${o}`)).join(' ')}`;
      }),
    );
    expect(sorted(documented)).toEqual(sorted(real));
    const [intro = ''] = part.split('\n|');
    const common = codeIn(intro).filter((code) => /^--\w/.test(code));
    expect(sorted(common.map((code) => code.split(' ')[0] ?? ''))).toEqual(
      sorted(Object.keys(commonOptions).map((name) => `--${name}`)),
    );
  });
});

describe('the errors', () => {
  const page = read('docs/errors.md');
  const symbols = Object.entries(errorTable);

  test('have one entry each, and no other error has one', () => {
    const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading);
    expect(headings).toEqual(Object.keys(errorTable));
  });

  test.each(symbols)('%s has the status, the blame and the advice of the table', (symbol, row) => {
    const { status, blame, retryHelps } = row;
    const advice = retryHelps ? 'retry later' : "don't retry";
    const line = `Status ${status} · caused by the ${blame} · ${advice}`;
    expect(section(page, symbol)).toStartWith(`\n\n${line}\n\n`);
  });

  async function toldAs(shape: ErrorShape, error: GatewayError): Promise<unknown> {
    const exchange = new Exchange(new Request('http://gateway/'));
    exchange.errorShape = shape;
    const text = await errorReply(exchange, error).text();
    return JSON.parse(text.replace(exchange.requestId, '…'));
  }

  test.each(symbols)('%s is shown as the three kinds of clients get it', async (symbol) => {
    const [, block = ''] = /^```json\n([\s\S]*?)^```$/m.exec(section(page, symbol)) ?? [];
    const shown = block
      .trim()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
    const [first] = shown;
    const told = isObject(first) && isObject(first.error) ? first.error : {};
    const error = new GatewayError(symbol as keyof typeof errorTable, String(told.message), {
      ...(typeof told.param === 'string' ? { param: told.param } : {}),
    });
    const shapes = ['plain', 'images', 'messages'] as const;
    expect(shown).toEqual(await Promise.all(shapes.map((shape) => toldAs(shape, error))));
  });
});

describe('the routes', () => {
  test('are all wired: a factory that is not serves nobody', async () => {
    const wiring = read('src/compose/routes.ts');
    const names = [...(await routeFactories()).keys()];
    expect(names).toContain('chatRoutes');
    expect(names.filter((name) => !wiring.includes(`...${name}(`))).toEqual([]);
  });

  test('are documented with their access and scope, and no others are', async () => {
    const real = (await routesInCode()).map((route) => {
      const scope = 'scope' in route && route.scope ? `\`${route.scope}\`` : '';
      return `${route.method} ${route.path.replace('{.+}', '')} | ${route.access} | ${scope}`;
    });
    expect(real).toContain('POST /v1/chat/completions | routing | `chat`');
    const documented = rowsOf(read('docs/api.md'))
      .filter(({ name }) => /^[A-Z]+ \//.test(name))
      .map(({ name, cells }) => `${name} | ${cells[0]} | ${cells[1]}`);
    expect(documented.toSorted()).toEqual(real.toSorted());
  });
});

describe('the providers', () => {
  const page = read('docs/providers.md');

  test('that are built in are listed as they are', () => {
    const documented = rowsOf(section(page, 'Built-in providers')).map(({ name, cells }) =>
      [name, ...cells.flatMap(codeIn)].join(' '),
    );
    const real = builtinCatalog.providers.map((provider) =>
      [provider.name, provider.api_key_env, provider.dialect, provider.base_url].join(' '),
    );
    expect(documented).toEqual(real);
  });

  test('are listed in the README by what the models of the catalogue can do', () => {
    const serve = (can: (model: (typeof builtinCatalog.models)[number]) => boolean) => {
      const endpoints = builtinCatalog.models.filter(can).flatMap(({ endpoints: all }) => all);
      const names = new Set(endpoints.map(({ provider }) => provider));
      const providers = builtinCatalog.providers.filter(({ name }) => names.has(name));
      return sorted(providers.map(({ api_key_env }) => api_key_env));
    };
    const withFeature = (...features: readonly string[]) =>
      serve((model) => (model.features ?? []).some((feature) => features.includes(feature)));
    const special = ['embeddings', 'transcription'];
    const table = section(read('README.md'), 'Real models').matchAll(
      /^\| (\w+)[^|]*\| (`[^|]+)\|$/gm,
    );
    expect(
      Object.fromEntries([...table].map(([, kind, set = '']) => [kind, sorted(codeIn(set))])),
    ).toEqual({
      chat: serve(
        ({ features, output_modalities }) =>
          output_modalities.includes('text') && !features?.some((name) => special.includes(name)),
      ),
      embeddings: withFeature('embeddings'),
      speech: withFeature('speech'),
      transcription: withFeature('transcription'),
      images: withFeature('image_generation', 'image_edit'),
    });
    const [opening = ''] = read('README.md').split('```');
    expect(opening).toMatch(/OpenAI, Anthropic, Google, and seven\s+more/);
    expect(builtinCatalog.providers.length).toBe(3 + 7);
  });

  test('speak dialects of which the page says what they can do', () => {
    const body = { model: 'a/b', messages: [{ role: 'user', content: 'Hello!' }] };
    const chat = openAiClientRequest(readChatRequest(body, { text: '', bytes: new Uint8Array() }));
    const real = dialectNames.map((dialect) => {
      const { embeddings, images, speech, transcription } = dialects[dialect];
      const can = [embeddings, images, speech, transcription].map((side) => (side ? 'yes' : ''));
      return [dialect, chat.adapterFor(dialect) ? 'yes' : 'not yet', ...can].join(': ');
    });
    const rows = rowsOf(section(page, 'Dialects'));
    expect(sorted(rows.map(({ name, cells }) => [name, ...cells].join(': ')))).toEqual(
      sorted(real),
    );
  });
});

describe('ARCHITECTURE.md', () => {
  test('lists every module of src and nothing else', () => {
    const modules = readdirSync(join(root, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `${entry.name}/`);
    const documented = rowsOf(section(read('ARCHITECTURE.md'), 'Modules')).map(({ name }) => name);
    expect(sorted(documented)).toEqual(sorted(modules));
  });
});
