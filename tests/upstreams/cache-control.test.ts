/**
 * Clients set `cache_control` for Anthropic and `prompt_cache_key` for OpenAI. Built-in models from
 * other vendors receive the request without the fields that their vendor rejects.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { chatAnswer, startFakeUpstream, status } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Vendors that reject `cache_control`: "Extra inputs are not permitted". */
const strict = ['groq', 'mistral'] as const;

function quirksOf(name: string): object {
  const provider = builtinCatalog.providers.find((provider) => provider.name === name);
  if (provider?.dialect !== 'openai')
    throw new Error(`${name} is no longer an OpenAI-style provider of the catalog.`);
  return provider.quirks ?? {};
}

beforeAll(async () => {
  const at = { base_url: `${upstream.url}/v1`, api_key: 'key' };
  const entry = (name: string) => [name, { ...at, dialect: 'openai', quirks: quirksOf(name) }];
  gateway = await InProcessGateway.start({
    providers: {
      claude: { ...at, dialect: 'anthropic' },
      ...Object.fromEntries(strict.map(entry)),
    },
    models: ['claude', ...strict].map((name) =>
      chatModel(`acme/${name}`, [{ provider: name, model: name }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const cacheControl = { cache_control: { type: 'ephemeral' } };
const messages = [
  { role: 'system', content: [{ type: 'text', text: 'Be brief.', ...cacheControl }] },
  { role: 'user', content: 'Weather?', ...cacheControl },
];

test.each(strict)(
  '%s receives a request without cache_control after a fallback from Claude',
  async (name) => {
    upstream.reset();
    upstream.script('claude', status(529, 'Overloaded'));
    upstream.script(name, chatAnswer('Rain.'));
    const models = ['acme/claude', `acme/${name}`];
    const reply = await gateway.post({ models, messages, ...cacheControl });
    expect(reply.status).toBe(200);
    const [first, second] = upstream.requests.map(({ raw }) => new TextDecoder().decode(raw));
    expect(first).toContain('"cache_control":{"type":"ephemeral"}');
    expect(second).toContain('Be brief.');
    expect(second).not.toContain('cache_control');
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('cache_control');
  },
);

const weather = { name: 'weather', parameters: { type: 'object' } };
const plain = [{ role: 'user', content: 'Weather?' }];

test.each<[string, object]>([
  ['a message', { messages }],
  [
    'a tool',
    { messages: plain, tools: [{ type: 'function', function: weather, ...cacheControl }] },
  ],
  [
    'a function',
    { messages: plain, tools: [{ type: 'function', function: { ...weather, ...cacheControl } }] },
  ],
])(
  'Groq and Mistral receive %s without cache_control, which is reported as dropped',
  async (_, fields) => {
    upstream.reset();
    for (const name of strict) {
      upstream.script(name, chatAnswer('Rain.'));
      const reply = await gateway.post({ model: `acme/${name}`, ...fields });
      expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([
        200,
        'cache_control',
      ]);
    }
    const bodies = upstream.requests.map(({ raw }) => new TextDecoder().decode(raw));
    expect(
      bodies.map((body) => [body.includes('Weather?'), body.includes('cache_control')]),
    ).toEqual([
      [true, false],
      [true, false],
    ]);
  },
);

test('prompt_cache_key is sent to Mistral but not to Groq, which rejects it', async () => {
  upstream.reset();
  for (const name of strict) {
    upstream.script(name, chatAnswer('Rain.'));
    await gateway.post({ model: `acme/${name}`, messages, prompt_cache_key: 'case-4711' });
  }
  const bodies = upstream.requests.map(({ raw }) => new TextDecoder().decode(raw));
  expect(bodies.map((body) => body.includes('prompt_cache_key'))).toEqual([false, true]);
});
