import { expect, test } from 'bun:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { loadConfig } from './load.ts';
import type { Environment } from './read-file.ts';

function load(content: object | string, environment: Environment = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-edges-'));
  try {
    const config = join(folder, 'tollgate.yaml');
    writeFileSync(config, typeof content === 'string' ? content : stringify(content));
    return loadConfig({ config }, environment);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The ranges of docs/configuration.md; null if there is no maximum. */
const ranges: readonly [name: string, least: number, most: number | null][] = [
  ['server.port', 0, 65_535],
  ['server.drain_seconds', 0, 86_400],
  ['server.database_wait_seconds', 0, 86_400],
  ['credits_per_usd', 1, 1_000_000_000],
  ['limits.requests_per_minute', 1, null],
  ['limits.tokens_per_minute', 1, null],
  ['limits.concurrent_requests', 1, null],
  ['limits.reads_per_minute', 1, null],
  ['limits.body_bytes', 1024, 1_073_741_824],
  ['cache.ttl_seconds', 1, 31_536_000],
  ['cache.max_bytes', 0, null],
  ['billing.byok_fee_basis_points', 0, 100_000],
  ['logs.keep_days', 7, 36_500],
];

test.each(ranges)('%s accepts values from %d to %p', (name, least, most) => {
  const [outer = '', inner] = name.split('.');
  const set = (value: number) => load({ [outer]: inner ? { [inner]: value } : value });
  expect(() => set(least)).not.toThrow();
  expect(() => set(least - 1)).toThrow(name);
  if (most === null) return;
  expect(() => set(most)).not.toThrow();
  expect(() => set(most + 1)).toThrow(name);
});

test.each(['https://gw.example/llm', 'https://gw.example/v1/', 'https://gw.example//v1'])(
  'server.public_url rejects %s because it has a path',
  (public_url) => {
    const problem = 'server.public_url must have no path: Tollgate is served at the root of a host';
    expect(() => load({ server: { public_url } })).toThrow(problem);
  },
);

test.each(['https://gw.example', 'http://gw.example:9000/'])(
  'server.public_url accepts %s',
  (public_url) => {
    const { publicUrl } = load({ server: { public_url } }).server;
    expect(publicUrl).toBe(public_url.replace(/\/$/, ''));
  },
);

const provider = { dialect: 'openai', base_url: 'http://gpu-1:8000/v1', api_key: null };

test.each(['timeout_ms', 'idle_timeout_ms'])('%s of a provider accepts 1 ms to 1 hour', (name) => {
  const set = (value: number) => load({ providers: { mine: { ...provider, [name]: value } } });
  for (const value of [1, 3_600_000]) expect(() => set(value)).not.toThrow();
  for (const value of [0, 3_600_001]) expect(() => set(value)).toThrow(`providers.mine.${name}`);
});

test.each(['required', 'any'])('tool_choice_required accepts %s', (word) => {
  const quirks = { tool_choice_required: word };
  const config = load({ providers: { mine: { ...provider, quirks } } });
  expect(config.providers.get('mine')?.quirks).toMatchObject(quirks);
});

test('rejects an admin port that is the public port, and listens on loopback by default', () => {
  const message = 'server.admin_port must differ from server.port';
  expect(() => load({ server: { admin_port: 8080 } })).toThrow(message);
  expect(() => load({ server: { port: 81, admin_port: 81 } })).toThrow(message);
  const { server } = load({ server: { admin_port: 81 } });
  expect(server.admin).toEqual({ host: '127.0.0.1', port: 81 });
  expect(load({ server: { admin_host: '::1' } }).server.admin).toBeNull();
});

test('api_key: null in the file overrides a key in the environment', () => {
  const openai = { base_url: provider.base_url, api_key: null };
  const config = load({ providers: { openai } }, { OPENAI_API_KEY: 'sk-live-0123456789' });
  expect(config.providers.get('openai')).toMatchObject({ shared: true, apiKey: null });
});

const speaker = {
  id: 'acme/voice',
  name: 'A',
  input_modalities: ['text'],
  output_modalities: ['audio'],
  features: ['speech'],
};
const prices = { pricing: { characters: '15' } };

function voiceOf(speech: object, endpoints: readonly object[]) {
  const models = [{ ...speaker, speech, endpoints }];
  const config = load({ catalogue: 'none', providers: { mine: provider }, models });
  return config.models.find(({ id }) => id === 'acme/voice');
}

test('a first_party speech model without voices keeps its other settings', () => {
  const speech = { style: 'first_party', input_characters_max: 1 };
  const model = voiceOf(speech, [{ provider: 'mine', model: 'v', ...prices }]);
  expect(model?.speech).toMatchObject({ ...speech, voices: { alloy: 'alloy' } });
});

test('input limits of speech models accept 1 and reject 0', () => {
  const endpoints = [{ provider: 'mine', model: 'v', ...prices }];
  for (const name of ['input_characters_max', 'input_bytes_max']) {
    expect(() => voiceOf({ [name]: 1 }, endpoints)).not.toThrow();
    expect(() => voiceOf({ [name]: 0 }, endpoints)).toThrow(name);
  }
});

test('an endpoint without a priority has priority 0', () => {
  const model = voiceOf({}, [
    { provider: 'mine', model: 'second', priority: 1, ...prices },
    { provider: 'mine', model: 'first', ...prices },
  ]);
  expect(model?.endpoints.map(({ model: name }) => name)).toEqual(['first', 'second']);
});

test('an invalid model does not hide problems of other models and their endpoints', () => {
  const endpoint = { provider: 'mine', model: 'v', ...prices };
  const { name: _, ...nameless } = speaker;
  const models = [
    { ...nameless, endpoints: [endpoint] },
    { ...speaker, id: 'acme/next', endpoints: [{ ...endpoint, priority: 'x' }, { ...endpoint }] },
    { ...speaker, id: 'acme/last', endpoints: [{ ...endpoint, provider: 'nobody' }] },
  ];
  const set = () => load({ catalogue: 'none', providers: { mine: provider }, models });
  for (const path of ['models[0].name', 'models[1].endpoints[0].priority', 'nobody']) {
    expect(set).toThrow(path);
  }
});

test('web search defaults to 5 results per search and 5 searches per request', () => {
  const search = { engine: 'searxng', url: 'http://127.0.0.1:8888', usd_per_search: '0.005' };
  const config = load({ tools: { web_search: search } });
  expect(config.webSearch).toMatchObject({ callsMax: 5, resultsMax: 5 });
});

test('the S3 region is read from AWS_REGION', () => {
  expect(load({}, { AWS_REGION: 'eu-north-1' }).s3Credentials.region).toBe('eu-north-1');
  expect(load({}).s3Credentials.region).toBeNull();
});

test('a variable can be true or false for a boolean option', () => {
  const content = { demo: ['$', '{DEMO}'].join('') };
  const vendor = { OPENAI_API_KEY: 'sk-some-key' };
  expect(load(content, { ...vendor, DEMO: 'true' }).demo).toBe(true);
  expect(load(content, { DEMO: 'false' }).demo).toBe(false);
});

test('a provider is proxied if the environment sets a proxy for its URL scheme', () => {
  const base = (url: string) => ({ dialect: 'openai', base_url: url, api_key: null });
  const providers = {
    near: base('http://localhost:8000/v1'),
    plain: base('http://gpu-1:8000/v1'),
    secure: base('https://api.example.com/v1'),
  };
  const proxied = (environment: Environment) =>
    Object.keys(providers).filter(
      (name) => load({ providers }, environment).providers.get(name)?.isProxied,
    );
  expect(proxied({})).toEqual([]);
  expect(proxied({ HTTP_PROXY: '', http_proxy: 'http://proxy:3128' })).toEqual(['plain']);
  // The runtime treats an empty variable as not set, too.
  expect(proxied({ HTTP_PROXY: 'http://proxy:3128', http_proxy: '' })).toEqual(['plain']);
  expect(proxied({ HTTPS_PROXY: 'http://proxy:3128', https_proxy: '' })).toEqual(['secure']);
  expect(proxied({ HTTPS_PROXY: 'http://proxy:3128' })).toEqual(['secure']);
  const both = { HTTP_PROXY: 'http://proxy:3128', https_proxy: 'http://proxy:3128' };
  expect(proxied(both)).toEqual(['plain', 'secure']);
});

const ownServer = { dialect: 'openai', base_url: 'http://gpu-1:8000/v1', api_key: null };

test('a line break at the end of a header value is removed', () => {
  const mine = { ...ownServer, headers: { 'x-team': 'red team\r\n' } };
  const { providers } = load({ providers: { mine } });
  expect(providers.get('mine')?.headers['x-team']?.reveal()).toBe('red team');
});

test.each([
  ['its own length', { 'Content-Length': '5' }],
  ['its own transfer encoding', { 'transfer-encoding': 'chunked' }],
  ['letters beyond ASCII', { 'x-team': 'grün' }],
])('provider headers reject %s', (_, headers) => {
  const mine = { ...ownServer, headers };
  expect(() => load({ providers: { mine } })).toThrow('providers.mine.headers');
});

test('a problem in the file is reported even if an override hides it', () => {
  const wrong = { server: { port: 'eighty', drain_seconds: 5 } };
  expect(() => load(wrong, { PORT: '8080' })).toThrow(
    'server.port must be a whole number from 0 to 65535, not "eighty"',
  );
  expect(() => load(wrong, { PORT: 'ninety' })).toThrow(/PORT \(server\.port\)[\s\S]*"eighty"/);
  expect(load({ server: { port: 81 } }, { PORT: '8080' }).server.port).toBe(8080);
  const noName = 'server.port has "${" that is not followed by a variable name';
  expect(() => load({ server: { port: `\${PORT:-80}` } }, { PORT: '8080' })).toThrow(noName);
  const section = 'server must be a section with host, port';
  expect(() => load({ server: 'gw.example' }, { PORT: '8080' })).toThrow(section);
});

test('a variable can set a numeric option, and an empty variable counts as not set', () => {
  const mine = { ...provider, timeout_ms: `\${PATIENCE}` };
  const { providers } = load({ providers: { mine } }, { PATIENCE: '5000' });
  expect(providers.get('mine')?.timeoutMs).toBe(5_000);
  const problem = 'providers.mine.timeout_ms needs the environment variable PATIENCE';
  expect(() => load({ providers: { mine } }, { PATIENCE: '' })).toThrow(problem);
});

test('quirks of a built-in provider are merged with those in the file', () => {
  const openai = { api_key: 'sk-of-mine', quirks: { developer_role: 'system' } };
  expect(load({ providers: { openai } }).providers.get('openai')?.quirks).toEqual({
    output_limit: 'max_completion_tokens',
    tenant_cache_field: 'prompt_cache_key',
    developer_role: 'system',
  });
});

test('the error for a price with too many digits states the maximum', () => {
  const model = {
    provider: 'mine',
    model: 'x',
    pricing: { prompt: '0.1234567891', completion: '0' },
  };
  const problem =
    'prompt must be a dollar amount with at most 9 digits before and 9 after the decimal point';
  const models = [{ id: 'acme/chat', name: 'Acme', endpoints: [model] }];
  expect(() => load({ providers: { mine: provider }, models })).toThrow(problem);
});

test('an empty section counts as absent, but an empty field is rejected', () => {
  const sections = ['server', 'limits', 'cache', 'billing', 'logs', 'tools', 'providers'];
  const empty = Object.fromEntries([...sections, 'models', 'private_addresses'].map(nothingIn));
  const config = load(empty);
  expect([config.server.port, config.limits.requestsPerMinute]).toEqual([8080, 600]);
  expect(load({ server: null }, { PORT: '9000' }).server).toMatchObject({ port: 9000 });
  expect(() => load({ database: null })).toThrow('database must be sqlite:<file> or postgres://…');
  expect(() => load({ server: { port: null } })).toThrow('server.port must be a whole number');
});

const nothingIn = (section: string) => [section, null];

test('an unquoted variable inside braces is reported as the only problem', () => {
  const file = [
    'providers:',
    `  openai: { api_key: \${OPENAI_API_KEY} }`,
    `  mine: { headers: { x: \${MINE} } }`,
  ].join('\n');
  const problemAt = (column: number) =>
    `column ${column}: inside braces, a string with "\${" must be quoted`;
  expect(() => load(file)).toThrow(
    expect.objectContaining({
      problems: [
        expect.objectContaining({ message: `line 2, ${problemAt(23)}` }),
        expect.objectContaining({ message: `line 3, ${problemAt(26)}` }),
      ],
    }),
  );
});
