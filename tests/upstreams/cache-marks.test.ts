/**
 * Clients mark prompts for the cache of whoever they call first, and name them for OpenAI's. A
 * shipped model behind it in the chain gets the question without what its vendor refuses.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { chatAnswer, startFakeUpstream, status } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** «property 'cache_control' is unsupported», «Extra inputs are not permitted». */
const strict = ['groq', 'mistral'] as const;

function quirksOf(name: string): object {
  const provider = builtinCatalog.providers.find((each) => each.name === name);
  if (provider?.dialect !== 'openai') throw new Error(`${name} is not in the catalogue as it was.`);
  return provider.quirks ?? {};
}

beforeAll(async () => {
  const at = { base_url: `${upstream.url}/v1`, api_key: 'key' };
  const place = (name: string) => [name, { ...at, dialect: 'openai', quirks: quirksOf(name) }];
  gateway = await InProcessGateway.start({
    providers: {
      claude: { ...at, dialect: 'anthropic' },
      ...Object.fromEntries(strict.map(place)),
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

const mark = { cache_control: { type: 'ephemeral' } };
const messages = [
  { role: 'system', content: [{ type: 'text', text: 'Be brief.', ...mark }] },
  { role: 'user', content: 'Weather?', ...mark },
];

test.each(strict)('%s takes over from Claude, without marks for its cache', async (name) => {
  upstream.reset();
  upstream.script('claude', status(529, 'Overloaded'));
  upstream.script(name, chatAnswer('Rain.'));
  const models = ['acme/claude', `acme/${name}`];
  const reply = await gateway.post({ models, messages, ...mark });
  expect(reply.status).toBe(200);
  const [first, second] = upstream.requests.map(({ raw }) => new TextDecoder().decode(raw));
  expect(first).toContain('"cache_control":{"type":"ephemeral"}');
  expect(second).toContain('Be brief.');
  expect(second).not.toContain('cache_control');
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('cache_control');
});

const weather = { name: 'weather', parameters: { type: 'object' } };
const plain = [{ role: 'user', content: 'Weather?' }];

test.each<[string, object]>([
  ['a message', { messages }],
  ['a tool', { messages: plain, tools: [{ type: 'function', function: weather, ...mark }] }],
  [
    'its function',
    { messages: plain, tools: [{ type: 'function', function: { ...weather, ...mark } }] },
  ],
])('a mark on %s is left out, and named', async (_, asked) => {
  upstream.reset();
  for (const name of strict) {
    upstream.script(name, chatAnswer('Rain.'));
    const reply = await gateway.post({ model: `acme/${name}`, ...asked });
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([
      200,
      'cache_control',
    ]);
  }
  const bodies = upstream.requests.map(({ raw }) => new TextDecoder().decode(raw));
  expect(bodies.map((body) => [body.includes('Weather?'), body.includes('cache_control')])).toEqual(
    [
      [true, false],
      [true, false],
    ],
  );
});

test("Groq: «property 'prompt_cache_key' is unsupported»; Mistral has one", async () => {
  upstream.reset();
  for (const name of strict) {
    upstream.script(name, chatAnswer('Rain.'));
    await gateway.post({ model: `acme/${name}`, messages, prompt_cache_key: 'case-4711' });
  }
  const asked = upstream.requests.map(({ raw }) => new TextDecoder().decode(raw));
  expect(asked.map((body) => body.includes('prompt_cache_key'))).toEqual([false, true]);
});
