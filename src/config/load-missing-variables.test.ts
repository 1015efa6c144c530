import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { loadConfig } from './load.ts';
import { ConfigProblems } from './problems.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-variables-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Concatenated, so that it is not read as a template literal. */
const variable = (name: string) => `\${${name}}`;

const storeSections = ['data_dir', 'database'] as const;

function load(content: object, used?: Parameters<typeof loadConfig>[2], flags = {}) {
  const config = join(folder, 'tollgate.yaml');
  writeFileSync(config, stringify(content));
  return loadConfig({ config, ...flags }, {}, used);
}

function problems(...args: Parameters<typeof load>): string[] {
  try {
    load(...args);
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return error.problems.map(({ path, message }) => `${path} ${message}`);
  }
  return [];
}

function modelAt(provider: string) {
  return {
    id: 'acme/chat',
    name: 'Acme Chat',
    input_modalities: ['text'],
    output_modalities: ['text'],
    endpoints: [{ provider, model: 'x', pricing: { prompt: '1', completion: '2' } }],
  };
}

describe('missing variables', () => {
  const everywhere = {
    server: { port: variable('A_PORT') },
    data_dir: '/var/lib/tollgate',
    redis: variable('A_REDIS'),
    tools: { web_search: { engine: 'brave', api_key: variable('A_SEARCH_KEY') } },
    providers: {
      mine: { dialect: 'openai', base_url: `${variable('A_HOST')}/v1`, byok_base_url: true },
      groq: { api_key: variable('A_KEY'), headers: { 'x-team': variable('A_TEAM') } },
      anthropic: { timeout_ms: 5_000 },
    },
    models: [modelAt('openai')],
  };

  test('are reported at every path that names one', () => {
    expect(problems(everywhere).map((problem) => problem.split(' ')[0])).toEqual([
      'server.port',
      'redis',
      'tools.web_search.api_key',
      'providers.mine.base_url',
      'providers.groq.api_key',
      'providers.groq.headers.x-team',
      'providers.anthropic.api_key',
      'models[0].endpoints[0].provider',
    ]);
  });

  test('are ignored by commands that use only the store', () => {
    const config = load(everywhere, storeSections);
    expect(config.database.reveal()).toBe('sqlite:/var/lib/tollgate/tollgate.db');
    // Tenants bring their own keys for these providers. A command that calls no provider needs no
    // base URL.
    expect(config.providers.get('mine')?.byokBaseUrl).toBe(true);
    expect(config.providers.get('groq')?.dialect).toBe('openai');
  });

  test('are reported to commands that use their section', () => {
    expect(problems({ database: `postgres://${variable('A_HOST')}/db` }, storeSections)).toEqual([
      'database needs the environment variable A_HOST, which is not set',
    ]);
    expect(problems(everywhere, ['server'])).toEqual([
      'server.port needs the environment variable A_PORT, which is not set',
    ]);
  });

  test('do not hide other problems of the same section', () => {
    const content = { ...everywhere, databse: 'sqlite:other.db', cache: { mode: 'sometimes' } };
    expect(problems(content, storeSections)).toEqual([
      'databse is not a known field; did you mean "database"?',
      'cache.mode must be one of "off", "auto", "always", not "sometimes"',
    ]);
  });

  test('are ignored if the command line sets the value', () => {
    const { dataDir } = load({ data_dir: variable('A_FOLDER') }, undefined, { dataDir: '/data' });
    expect(dataDir).toBe('/data');
  });
});

describe('endpoint with a provider that cannot be called', () => {
  const at = 'models[0].endpoints[0].provider names';

  test('is reported with the missing variable for a built-in provider', () => {
    expect(problems({ models: [modelAt('mistral')] })).toEqual([
      `${at} "mistral", which is not a configured provider: ` +
        'set MISTRAL_API_KEY or providers.mistral.api_key',
    ]);
  });

  test('is reported with the option to add for any other provider', () => {
    const hint = 'which is not a configured provider; add it as providers.my-vllm';
    const own = `${at} "my-vllm", ${hint}`;
    expect(problems({ models: [modelAt('my-vllm')] })).toEqual([own]);
    const without = { catalogue: 'none', models: [modelAt('openai')] };
    expect(problems(without)).toEqual([own.replaceAll('my-vllm', 'openai')]);
  });
});

test('a URL without a scheme is rejected with an example', () => {
  const mine = { dialect: 'openai', base_url: 'gpu-1:8000/v1', api_key: null };
  const server = { public_url: 'gateway.example' };
  expect(problems({ providers: { mine }, server })).toEqual([
    'providers.mine.base_url must be an http(s) URL such as "https://api.example.com/v1"',
    'server.public_url must be an http(s) URL such as "https://gateway.example.com"',
  ]);
});

test('a section with a scalar value is rejected with the expected fields', () => {
  expect(problems({ providers: ['openai'], cache: 'off', port: 80, demo: 'yes' })).toEqual([
    'providers must be a section with the names of providers, such as "openai: { api_key: … }"',
    'cache must be a section with mode, ttl_seconds, max_bytes, not "off"',
    'port is not a known field; did you mean "server.port"?',
    'demo must be "auto", true, or false, not "yes"',
  ]);
  expect(problems({ providers: { openai: null } })).toEqual([
    'providers.openai must be a section with dialect, base_url, api_key, credentials, …',
  ]);
});

test.each(['OPENAI_KEY:-none', 'openai key', 'OPENAI-KEY', ''])(
  'a substitution without a valid variable name is rejected: %p',
  (name) => {
    const mine = { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: variable(name) };
    expect(problems({ providers: { mine } })).toEqual([
      'providers.mine.api_key has "${" that is not followed by a variable name and a closing brace',
    ]);
  },
);

test('nested aliases that expand too much are rejected', () => {
  const many = (name: string) => Array(10).fill(name).join(', ');
  const lines = ['a: &a [x]', 'b: &b [*a]', 'c: &c [*b]', 'd: &d [*c]', 'e: [*d]'];
  const bomb = lines.map((line) => line.replace(/\[(.+)\]/, (_, one) => `[${many(one)}]`));
  const config = join(folder, 'bomb.yaml');
  writeFileSync(config, bomb.join('\n'));
  expect(() => loadConfig({ config }, {})).toThrow('its aliases (*name) expand too much');
});

test('thousands of models can share prices by an alias', () => {
  const config = join(folder, 'shared.yaml');
  const prices = '&usual { prompt: "0.000001", completion: "0.000002" }';
  const model = (_: unknown, index: number) => `
  - id: acme/chat-${index}
    name: Chat
    input_modalities: [text]
    output_modalities: [text]
    endpoints: [{ provider: mine, model: chat, pricing: ${index === 0 ? prices : '*usual'} }]`;
  const models = Array.from({ length: 500 }, model).join('');
  const provider = 'mine: { dialect: openai, base_url: "http://127.0.0.1:1/v1" }';
  writeFileSync(config, `providers: { ${provider} }\nmodels:${models}\n`);
  const last = loadConfig({ config }, {}).models.find(({ id }) => id === 'acme/chat-499');
  expect(last?.endpoints[0]?.pricing).toMatchObject({ completion: '0.000002' });
});

test('an alias without an anchor is reported by line and column, without its text', () => {
  const config = join(folder, 'stars.yaml');
  writeFileSync(config, 'private_addresses:\n  - gpu-1\n  - *.corp.lan\nredis: *secret\n');
  const sentence = 'this alias (*name) has no anchor; a string that begins with * must be quoted';
  const lines = ['line 3, column 5', 'line 4, column 8'];
  expect(() => loadConfig({ config }, {})).toThrow(
    new Error(lines.map((line) => `${config}: ${line}: ${sentence}`).join('\n')),
  );
});

test('a circular alias is reported by line and column', () => {
  const config = join(folder, 'circle.yaml');
  writeFileSync(config, 'limits: &all\n  cache: *all\nredis: &url redis://cache\nobjects: *url\n');
  const sentence = 'line 2, column 10: this alias (*name) refers to a value that contains it';
  expect(() => loadConfig({ config }, {})).toThrow(new Error(`${config}: ${sentence}`));
});
