import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { stringify } from 'yaml';
import { listedModels } from './config.ts';
import type { Flags } from './load.ts';
import { loadConfig } from './load.ts';
import { ConfigProblems } from './problems.ts';
import type { Environment } from './read-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-config-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/** Writes a configuration file. A string is written unchanged. */
function file(content: object | string): string {
  const path = join(folder, `${++files}.yaml`);
  writeFileSync(path, typeof content === 'string' ? content : stringify(content));
  return path;
}

function load(content: object | string, env: Environment = {}, flags: Flags = {}) {
  return loadConfig({ config: file(content), ...flags }, env);
}

/** Returns the problems of a configuration, without the name of the file. */
function problems(content: object | string, env: Environment = {}, flags: Flags = {}): string[] {
  try {
    load(content, env, flags);
  } catch (error) {
    if (!(error instanceof ConfigProblems)) throw error;
    return error.message.split('\n').map((line) => line.replace(/^\S+\.yaml: /, ''));
  }
  throw new Error('The configuration was accepted.');
}

/** Concatenated, so that it is not read as a template literal. */
const variable = (name: string) => `\${${name}}`;

const model = {
  id: 'acme/chat',
  name: 'Acme Chat',
  input_modalities: ['text'],
  output_modalities: ['text'],
};
const pricing = { prompt: '0.50', completion: '1.50' };
const mine = { dialect: 'openai', base_url: 'http://gpu-1:8000/v1', api_key: null };

describe('loadConfig without settings', () => {
  const config = load({});

  test('uses the documented defaults', () => {
    expect(config.server).toEqual({
      ...{ host: '127.0.0.1', port: 8080, admin: null, publicUrl: null },
      ...{ drainSeconds: 600, databaseWaitSeconds: 12, trustedProxies: [] },
    });
    expect(config.dataDir).toBe('./data');
    expect(config.database.reveal()).toBe('sqlite:./data/tollgate.db');
    expect(config.objects.reveal()).toBe('file:./data/objects');
    expect(config.redis).toBeNull();
    expect(config.creditsPerUsd).toBe(1_000_000);
    expect(config.limits).toEqual({
      requestsPerMinute: 600,
      tokensPerMinute: null,
      concurrentRequests: 256,
      readsPerMinute: 6_000,
      bodyBytes: 20_971_520,
      bodyMemoryBytes: null,
    });
    expect(config.cache).toEqual({ mode: 'auto', ttlSeconds: 300, maxBytes: 268_435_456 });
    const charging = { durability: 'journal', abandoned: 'input', defaultPlan: null };
    expect<object>(config.billing).toEqual({ ...charging, byokFeeBasisPoints: 500 });
    expect(config.bootstrap.credits).toBe(10_000_000);
    expect(config.webSearch).toBeNull();
  });

  test('turns the demo on and has no callable provider', () => {
    expect(config.demo).toBe(true);
    const vendors = [...config.providers.values()];
    expect(vendors.length).toBeGreaterThan(0);
    expect(vendors.filter(({ shared }) => shared)).toEqual([]);
    expect(listedModels(config).some(({ isConfigured }) => isConfigured)).toBe(false);
  });

  test('treats an empty file like no file', () => {
    expect(load('').server.port).toBe(8080);
    expect(load('# nothing yet\n').demo).toBe(true);
  });
});

describe('loadConfig precedence', () => {
  const env = {
    HOST: '0.0.0.0',
    PORT: '9001',
    TOLLGATE_DATA_DIR: '/var/env',
    DATABASE_URL: 'postgres://env',
    REDIS_URL: 'redis://env',
    OBJECTS_URL: 's3://env/prefix',
    ...{ ADMIN_HOST: '::1', ADMIN_PORT: '9002' },
  };
  const written = {
    server: { host: '::1', port: 9000, drain_seconds: 5 },
    data_dir: '/var/file',
    database: 'sqlite:{data_dir}/file.db',
  };

  test('uses the file if nothing overrides it', () => {
    const config = load(written);
    expect(config.server).toMatchObject({ host: '::1', port: 9000, drainSeconds: 5 });
    expect(config.database.reveal()).toBe('sqlite:/var/file/file.db');
    expect(config.objects.reveal()).toBe('file:/var/file/objects');
  });

  test('prefers the environment over the file', () => {
    const config = load(written, env);
    expect(config.server).toMatchObject({ host: '0.0.0.0', port: 9001, drainSeconds: 5 });
    expect(config.dataDir).toBe('/var/env');
    expect(config.database.reveal()).toBe('postgres://env');
    expect(config.redis?.reveal()).toBe('redis://env');
    expect(config.server.admin).toEqual({ host: '::1', port: 9002 });
    expect(config.objects.reveal()).toBe('s3://env/prefix');
  });

  test('prefers the command line over the environment and the file', () => {
    const config = load(written, env, { host: 'localhost', port: '0', dataDir: '/var/flag' });
    expect(config.server).toMatchObject({ host: 'localhost', port: 0 });
    expect(config.dataDir).toBe('/var/flag');
  });

  test('treats an empty variable as not set', () => {
    expect(load(written, { PORT: '', HOST: '' }).server).toMatchObject({ host: '::1', port: 9000 });
  });

  test('reads the file named by --config, or else by TOLLGATE_CONFIG', () => {
    const [one, two] = [file({ server: { port: 1 } }), file({ server: { port: 2 } })];
    expect(loadConfig({}, { TOLLGATE_CONFIG: one }).server.port).toBe(1);
    expect(loadConfig({ config: two }, { TOLLGATE_CONFIG: one }).server.port).toBe(2);
  });

  test('reports an invalid override by the name of its option or variable', () => {
    expect(problems({}, { PORT: 'eighty' })).toEqual([
      'environment: PORT (server.port) must be a whole number from 0 to 65535, not "eighty"',
    ]);
    expect(problems({}, { PORT: '80' }, { port: '70000' })).toEqual([
      'command line: --port (server.port) must be a whole number from 0 to 65535, not 70000',
    ]);
    expect(problems({ TOLLGATE: 1 }, { TOLLGATE_BOOTSTRAP_CREDITS: 'many' })).toEqual([
      'TOLLGATE is not a known field',
      expect.stringMatching(/^environment: TOLLGATE_BOOTSTRAP_CREDITS /),
    ]);
  });
});

describe('variable in the configuration file', () => {
  test('is substituted in any field and converted to its type', () => {
    const content = {
      server: { port: variable('P'), public_url: `https://${variable('H')}/` },
      demo: variable('D'),
      redis: variable('R'),
    };
    const config = load(content, { P: '9', H: 'gw.example', D: 'false', R: 'redis://r' });
    expect(config.server).toMatchObject({ port: 9, publicUrl: 'https://gw.example' });
    expect(config.demo).toBe(false);
    expect(config.redis?.reveal()).toBe('redis://r');
  });

  test('is substituted only once', () => {
    const env = { A: variable('B'), B: 'inner' };
    expect(load({ data_dir: variable('A') }, env).dataDir).toBe(variable('B'));
  });

  test('is reported once if it is not set', () => {
    const providers = { mine: { ...mine, api_key: variable('NOPE') } };
    const endpoints = [{ provider: 'mine', model: 'x', pricing }];
    expect(problems({ providers, models: [{ ...model, endpoints }] })).toEqual([
      'providers.mine.api_key needs the environment variable NOPE, which is not set',
    ]);
    expect(problems({ providers }, { NOPE: '' })).toHaveLength(1);
  });
});

describe('ConfigProblems', () => {
  test('lists problems of all sections at once', () => {
    const content = {
      server: { prot: 80 },
      limits: { body_bytes: 1 },
      cache: { mode: 'sometimes' },
      providers: {
        mine,
        odd: { dialect: 'opnai', base_url: 'http://a' },
        half: { dialect: 'openai' },
      },
      tools: { web_search: { engine: 'searxng' } },
      models: [
        { ...model, endpoints: [{ provider: 'mine', model: 'x' }] },
        { ...model, endpoints: [{ provider: 'minne', model: 'x', pricing }] },
        { ...model, id: 'no-slash', endpoints: [] },
      ],
    };
    const env = { TOLLGATE_BOOTSTRAP_CREDITS: 'many', TOLLGATE_ADMIN_TOKEN: 'short' };
    expect(problems(content, env).sort()).toEqual([
      'cache.mode must be one of "off", "auto", "always", not "sometimes"',
      'environment: TOLLGATE_ADMIN_TOKEN must start with sk-admin- and have at least ' +
        '32 characters without spaces',
      'environment: TOLLGATE_BOOTSTRAP_CREDITS must be a whole number of credits',
      'limits.body_bytes must be a whole number from 1024 to 1073741824, not 1',
      'models[0].endpoints[0].pricing needs prompt and completion; ' + 'use "0" for what is free',
      'models[1].endpoints[0].provider names "minne", which is not a configured provider; ' +
        'did you mean "mine"?',
      'models[1].id is "acme/chat", which an earlier model already has',
      'models[2].endpoints must have at least 1 item',
      'models[2].id must be <brand>/<model>, not "no-slash"',
      'providers.half.base_url is required, for example "https://api.example.com/v1"',
      'providers.odd.dialect must be one of "openai", "openai-responses", "anthropic", "gemini", ' +
        '"bedrock", "cohere", "siliconflow", not "opnai"',
      'server.prot is not a known field; did you mean "port"?',
      'tools.web_search.url is required for searxng',
    ]);
  });

  test('lists problems within a section, provider, and model with their paths', () => {
    const content = {
      server: { port: 'eighty', public_url: 'http://a/?b' },
      providers: { mine, half: { dialect: 'openai', timeout_ms: 'soon' } },
      models: [
        { ...model, id: 'no-slash', endpoints: [{ provider: 'mine', model: 'x', pricing }] },
        {
          ...model,
          features: ['magic'],
          endpoints: [{ provider: 'minne', model: 'x', pricing: { prompt: 1 } }, { model: 'y' }],
        },
        { ...model, id: 'acme/other', endpoints: [{ provider: 'mine', model: 'x' }] },
      ],
    };
    const unpriced = 'use "0" for what is free';
    expect(
      problems(content)
        .map((line) => line.split(', not ')[0])
        .sort(),
    ).toEqual([
      'models[0].id must be <brand>/<model>',
      'models[1].endpoints[0].pricing needs completion; use "0" for what is free',
      'models[1].endpoints[0].pricing.prompt must be a decimal number of dollars in quotes, ' +
        'such as "0.50"',
      'models[1].endpoints[0].provider names "minne", which is not a configured provider; ' +
        'did you mean "mine"?',
      `models[1].endpoints[1].pricing needs prompt and completion; ${unpriced}`,
      'models[1].endpoints[1].provider is required (a string of at least 1 character)',
      expect.stringMatching(/^models\[1\]\.features\[0\] must be one of /),
      `models[2].endpoints[0].pricing needs prompt and completion; ${unpriced}`,
      'providers.half.base_url is required, for example "https://api.example.com/v1"',
      expect.stringMatching(/^providers\.half\.timeout_ms must be a whole number/),
      'server.port must be a whole number from 0 to 65535',
      'server.public_url must be an http(s) URL without a user name, query, or fragment',
    ]);
  });

  test.each([
    ['a list', '- a\n- b\n'],
    ['a string', 'just words'],
  ])('reports a file with %s instead of settings', (_, text) => {
    expect(problems(text)).toEqual(['must be a section with server, data_dir, database, redis, …']);
  });

  test('reports a missing file', () => {
    const missing = () => loadConfig({ config: join(folder, 'missing.yaml') }, {});
    expect(missing).toThrow(`${join(folder, 'missing.yaml')}: this file does not exist`);
    expect(() => loadConfig({ config: folder }, {})).toThrow(
      `${folder}: this is a folder, not a file`,
    );
  });

  test('reports a file with two documents in plain language', () => {
    expect(problems('demo: true\n---\ndemo: false\n')).toEqual([
      'line 2, column 1: Source contains multiple documents',
    ]);
  });

  test('reports invalid YAML by line and explains common mistakes', () => {
    expect(problems('server:\n  port: [1\nx: y\n')[0]).toMatch(/^line \d+, column \d+: \S/);
    expect(problems('server:\n\tport: 80\n')).toEqual([
      'line 2, column 1: YAML does not allow tabs here; indent with spaces',
    ]);
    expect(problems('server: port: 80\n')).toEqual([
      'line 1, column 9: this line has a second colon; quote the value, or put it on a new line',
    ]);
    expect(problems('demo: true\ndemo: false\n')).toEqual([
      'line 2, column 1: this name appears twice in the same section; remove one',
    ]);
  });

  test('reports an invalid provider once, not for each of its models', () => {
    const providers = { mine: { base_url: 'http://gpu-1/v1' } };
    const endpoints = [{ provider: 'mine', model: 'x', pricing }];
    expect(problems({ providers, models: [{ ...model, endpoints }] })).toEqual([
      'providers.mine.dialect is required: one of openai, openai-responses, anthropic, gemini, ' +
        'bedrock, cohere, siliconflow',
    ]);
  });

  test.each([
    'http://user:pw@gpu-1/v1',
    'http://gpu-1/v1?key=a',
    'http://gpu-1/v1#a',
    'http://gpu-1/v1#',
  ])('rejects the base URL %s', (base_url) => {
    expect(problems({ providers: { mine: { ...mine, base_url } } })).toEqual([
      'providers.mine.base_url must be an http(s) URL without a user name, query, or fragment',
    ]);
    expect(problems({ server: { public_url: base_url } })).toEqual([
      'server.public_url must be an http(s) URL without a user name, query, or fragment',
    ]);
  });

  const torn = ['a\r\nx-evil: 1', 'a\nb', 'a\0b', 'a\u010ab'];
  test.each(torn)(
    'rejects a key or header with invalid characters without repeating it: %j',
    (text) => {
      const invalidKey =
        'has characters that are not valid in a header; check that it was copied correctly';
      expect(problems({ providers: { mine: { ...mine, api_key: text } } })).toEqual([
        `providers.mine.api_key ${invalidKey}`,
      ]);
      expect(problems({}, { OPENAI_API_KEY: text })).toEqual([
        `providers.openai.api_key ${invalidKey}`,
      ]);
      const search = { engine: 'brave', api_key: text };
      expect(problems({ tools: { web_search: search } })).toEqual([
        `tools.web_search.api_key ${invalidKey}`,
      ]);
      for (const headers of [{ 'x-a': text }, { [text]: 'a' }, { 'x a': 'b' }]) {
        expect(problems({ providers: { mine: { ...mine, headers } } })).toEqual([
          'providers.mine.headers has a name or value that is not valid in a header',
        ]);
      }
    },
  );

  test('a line break at the end of a key is removed', () => {
    const { providers } = load({}, { OPENAI_API_KEY: 'sk-live-0123456789\r\n' });
    expect(providers.get('openai')?.apiKey?.reveal()).toBe('sk-live-0123456789');
  });
});

describe('providers and models', () => {
  test("a key in the environment enables the provider's built-in models and disables the demo", () => {
    const config = load({}, { OPENAI_API_KEY: 'sk-live-0123456789' });
    const shared = [...config.providers.values()].filter((vendor) => vendor.shared);
    expect(shared.map(({ name }) => name)).toEqual(['openai']);
    expect(config.demo).toBe(false);
    const configured = listedModels(config).filter(({ isConfigured }) => isConfigured);
    expect(configured.length).toBeGreaterThan(0);
    expect(
      configured
        .flatMap(({ endpoints }) => endpoints)
        .every(({ provider }) => provider === 'openai'),
    ).toBe(true);
  });

  test('a built-in provider without a key is kept for tenants with their own key', () => {
    const config = load({}, { OPENAI_API_KEY: 'sk-live-0123456789' });
    expect(config.providers.get('anthropic')).toMatchObject({ shared: false, apiKey: null });
    const claude = config.models.filter(({ endpoints }) =>
      endpoints.some(({ provider }) => provider === 'anthropic'),
    );
    expect(claude.length).toBeGreaterThan(0);
  });

  test('a provider with shared: false needs no key', () => {
    const config = load({ providers: { openai: { shared: false, byok_base_url: true } } });
    expect(config.providers.get('openai')).toMatchObject({ shared: false, byokBaseUrl: true });
    expect(config.demo).toBe(true);
    expect(problems({ providers: { openai: { byok_base_url: true } } })[0]).toContain(
      'providers.openai.api_key is required',
    );
  });

  test('a model of the file cannot use a built-in provider without a key', () => {
    const endpoints = [{ provider: 'openai', model: 'x', pricing }];
    expect(problems({ models: [{ ...model, endpoints }] })[0]).toStartWith(
      'models[0].endpoints[0].provider names "openai", which is not a configured provider',
    );
  });

  test('the secret key needs at least 32 characters and is not printed', () => {
    const long = 'hidden-0123456789-0123456789-0123';
    const config = load({}, { TOLLGATE_SECRET_KEY: long });
    expect(config.secretKey?.reveal()).toBe(long);
    expect(JSON.stringify(config)).not.toContain('hidden');
    expect(load({}).secretKey).toBeNull();
    const rotating = load({}, { TOLLGATE_PREVIOUS_SECRET_KEY: long });
    expect(rotating.secretKey).toBeNull();
    expect(rotating.previousSecretKey?.reveal()).toBe(long);
    expect(JSON.stringify(rotating)).not.toContain('hidden');
    expect(problems({}, { TOLLGATE_PREVIOUS_SECRET_KEY: long.slice(0, 31) })).toEqual([
      'environment: TOLLGATE_PREVIOUS_SECRET_KEY must have at least 32 characters',
    ]);
    expect(problems({}, { TOLLGATE_SECRET_KEY: long.slice(0, 31) })).toEqual([
      'environment: TOLLGATE_SECRET_KEY must have at least 32 characters',
    ]);
  });

  test('catalogue: none removes all built-in providers and models', () => {
    const config = load({ catalogue: 'none' }, { OPENAI_API_KEY: 'sk-live-0123456789' });
    expect(config.models).toEqual([]);
    expect(config.providers.size).toBe(0);
  });

  test('single fields of a built-in provider can be overridden', () => {
    const providers = { openai: { base_url: 'http://mirror.example/v1/' } };
    const config = load({ providers }, { OPENAI_API_KEY: 'sk-live-0123456789' });
    expect(config.providers.get('openai')).toMatchObject({
      dialect: 'openai',
      baseUrl: 'http://mirror.example/v1',
    });
    expect(config.providers.get('openai')?.apiKey?.reveal()).toBe('sk-live-0123456789');
  });

  test('a model of the file replaces the built-in one with the same ID', () => {
    const [builtIn] = load({}).models;
    const endpoints = [{ provider: 'mine', model: 'x', pricing }];
    const own = { ...model, id: builtIn?.id, name: 'Mine now', endpoints };
    const { models } = load({ providers: { mine }, models: [own] });
    const found = models.filter(({ id }) => id === builtIn?.id);
    expect(found.map(({ name }) => name)).toEqual(['Mine now']);
  });

  test('endpoints are sorted by priority', () => {
    const endpoints = [3, 1, 2].map((priority) => ({
      provider: 'mine',
      model: `m${priority}`,
      priority,
      pricing,
    }));
    const config = load({
      catalogue: 'none',
      providers: { mine },
      models: [{ ...model, endpoints }],
    });
    expect(config.models[0]?.endpoints.map((endpoint) => endpoint.model)).toEqual([
      'm1',
      'm2',
      'm3',
    ]);
  });

  test.each([
    [['transcription'], { minute: '0' }, []],
    [['transcription'], pricing, ['minute']],
    [['embeddings'], { prompt: '0' }, []],
    [['speech'], { characters: '15' }, []],
    [['speech'], { minute: '1' }, ['characters or bytes']],
    [['image_edit'], { output_image: '0.04' }, []],
    [['image_generation'], { prompt: '1' }, ['output_image or completion']],
    [['tools'], { prompt: '0' }, ['completion']],
  ])('a model with the features %j and prices %j lacks %j', (features, prices, lacks) => {
    const endpoints = [{ provider: 'mine', model: 'x', pricing: prices }];
    const content = { providers: { mine }, models: [{ ...model, features, endpoints }] };
    const found = lacks.length === 0 ? [] : problems(content);
    expect(found).toEqual(
      lacks.map((lack) => `models[0].endpoints[0].pricing needs ${lack}; use "0" for what is free`),
    );
    if (lacks.length === 0) expect(load(content).models.at(-1)?.id).toBe('acme/chat');
  });

  test('an unquoted price is rejected', () => {
    const endpoints = [{ provider: 'mine', model: 'x', pricing: { prompt: 0.5, completion: '1' } }];
    expect(problems({ providers: { mine }, models: [{ ...model, endpoints }] })).toEqual([
      'models[0].endpoints[0].pricing.prompt must be a decimal number of dollars in quotes, ' +
        'such as "0.50", not 0.5',
    ]);
  });

  const tieredModel = (long_prompts: unknown, prices: object = pricing, more: object = {}) => {
    const endpoints = [{ provider: 'mine', model: 'x', pricing: { ...prices, long_prompts } }];
    return { providers: { mine }, models: [{ ...model, ...more, endpoints }] };
  };

  test('prices can have tiers by prompt length, set by a variable', () => {
    const tiers = [
      { above_tokens: variable('LONG'), prompt: '1' },
      { above_tokens: 2_000, completion: '3', cache_read: '0', cache_write: '9' },
    ];
    const loaded = load(tieredModel(tiers), { LONG: '1000' }).models.at(-1)?.endpoints[0]?.pricing;
    expect<unknown>(loaded).toEqual({
      ...pricing,
      long_prompts: [{ ...tiers[0], above_tokens: 1_000 }, tiers[1]],
    });
  });

  const dollars = 'must be a decimal number of dollars in quotes, such as "0.50"';
  test.each([
    ['', [], ' must have at least 1 item'],
    ['', { above_tokens: 5, prompt: '1' }, ' must be a list, not an object'],
    ['', Array(11).fill({}), ' has 11 items; at most 10 are allowed'],
    ['[0]', [{ prompt: '1' }], '.above_tokens is required (a whole number of at least 1)'],
    [
      '[0]',
      [{ above_tokens: 0, prompt: '1' }],
      '.above_tokens must be a whole number of at least 1, not 0',
    ],
    [
      '[0]',
      [{ above_tokens: '200k', prompt: '1' }],
      '.above_tokens must be a whole number of at least 1, not "200k"',
    ],
    ['[0]', [{ above_tokens: 5, prompt: 4 }], `.prompt ${dollars}, not 4`],
    ['[0]', [{ above_tokens: 5, prompt: '-1' }], `.prompt ${dollars}, not "-1"`],
    [
      '[0]',
      [{ above_tokens: 5, promt: '1' }],
      '.promt is not a known field; did you mean "prompt"?',
    ],
    ['[0]', [{ above_tokens: 5 }], ' changes no prices; add the prices that differ'],
    [
      '[1]',
      [
        { above_tokens: 5, prompt: '1' },
        { above_tokens: 5, prompt: '2' },
      ],
      '.above_tokens must be greater than that of the previous tier (5), not 5',
    ],
    [
      '[2]',
      [
        { above_tokens: 5, prompt: '1' },
        { above_tokens: 9, prompt: '2' },
        { above_tokens: 8, prompt: '3' },
      ],
      '.above_tokens must be greater than that of the previous tier (9), not 8',
    ],
  ])('an invalid price tier is reported by path: long_prompts%s of %j', (at, tiers, problem) => {
    const path = `models[0].endpoints[0].pricing.long_prompts${at}`;
    expect(problems(tieredModel(tiers))).toEqual([`${path}${problem}`]);
  });

  test('price tiers without a token price are rejected', () => {
    const tiers = [{ above_tokens: 5, prompt: '1' }];
    const transcriptionModel = { features: ['transcription'] };
    expect(problems(tieredModel(tiers, { minute: '0.006' }, transcriptionModel))).toEqual([
      'models[0].endpoints[0].pricing.long_prompts requires prompt or completion, ' +
        'because only token prices can have tiers',
    ]);
  });
});

describe('secrets of a configuration', () => {
  const secrets = {
    api: 'sk-tg-hidden-0123456789abcdefghij',
    manage: 'sk-mgmt-hidden-0123456789abcdefgh',
    admin: 'sk-admin-hidden-0123456789abcdefg',
  };
  const config = load(
    {
      redis: 'redis://:hidden-redis@cache.example',
      objects: 's3://bucket?secret=hidden-objects',
      providers: {
        mine: { ...mine, api_key: 'hidden-provider-key', headers: { 'x-key': 'hidden-header' } },
      },
      tools: { web_search: { engine: 'brave', url: 'http://b', api_key: 'hidden-search-key' } },
    },
    {
      DATABASE_URL: 'postgres://me:hidden-database@db/x',
      OPENAI_API_KEY: 'sk-hidden-openai-key',
      TOLLGATE_BOOTSTRAP_API_KEY: secrets.api,
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: secrets.manage,
      TOLLGATE_ADMIN_TOKEN: secrets.admin,
    },
  );

  test('are all loaded', () => {
    expect(config.bootstrap.apiKey?.reveal()).toBe(secrets.api);
    expect(config.providers.get('mine')?.headers['x-key']?.reveal()).toBe('hidden-header');
    expect(config.providers.get('openai')?.apiKey?.reveal()).toBe('sk-hidden-openai-key');
  });

  test.each([
    ['JSON', () => JSON.stringify({ ...config, providers: [...config.providers] })],
    ['a debugger', () => inspect(config, { depth: 20, showHidden: true })],
    ["Bun's inspector", () => Bun.inspect(config, { depth: 20 })],
    ['templates', () => `${config.database} ${config.redis} ${config.objects}`],
    ['each provider', () => [...config.providers.values()].map((one) => `${one.apiKey}`).join()],
  ])('are not printed by %s', (_, print) => {
    const text = print();
    expect(text).toContain('•••');
    expect(text).not.toContain('hidden');
  });
});

test('the configuration is frozen', () => {
  const config = load({ providers: { mine } });
  const { server, limits, models } = config;
  const provider = config.providers.get('mine');
  for (const part of [config, server, limits, models, models[0], provider]) {
    expect(Object.isFrozen(part)).toBe(true);
  }
});
