/** Concurrent answers for 2 tenants over reused provider connections. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { delayed, echo, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const clientCount = 24;
const requestsPerClient = 10;
const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let keys: readonly string[] = [];

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000, concurrent_requests: 1_000 },
    providers: { fake: { dialect: 'openai', base_url: `${upstream.url}/v1` } },
    models: [chatModel('test/chat', [{ provider: 'fake', model: 'chat' }])],
  });
  keys = [gateway.keys.routing, await gateway.makeTenant({ id: 'other', name: 'Other' })];
}, 120_000);
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const marks = Array.from(
  { length: clientCount * requestsPerClient },
  (_, i) => `mark-${i}-${crypto.randomUUID()}`,
);

/** Returns the i-th request, alternating between the client APIs, streamed or not. */
function requestOf(i: number): { path: string; body: object } {
  const text = `${marks[i]} ${'and so on '.repeat(i % 9)}${marks[i]}`;
  const messages = [{ role: 'user', content: text }];
  const model = 'test/chat';
  const forms = [
    { path: '/v1/chat/completions', body: { model, messages, stream: true } },
    { path: '/v1/chat/completions', body: { model, messages } },
    { path: '/v1/messages', body: { model, messages, max_tokens: 500, stream: true } },
    { path: '/v1/responses', body: { model, input: text, stream: true } },
  ] as const;
  return forms[i % forms.length] ?? forms[0];
}

/** Sends a request and returns the received text. Every third client disconnects at some point. */
async function receive(i: number): Promise<{ own: string; text: string; disconnects: boolean }> {
  const { path, body } = requestOf(i);
  const client = new AbortController();
  const disconnects = i % 3 === 0;
  if (disconnects) setTimeout(() => client.abort(), (i * 7) % 60);
  let text = '';
  try {
    const key = keys[i % keys.length] ?? '';
    const response = await gateway.fetch(body, { path, key, signal: client.signal });
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true });
  } catch (error) {
    if (!disconnects) throw error;
  }
  return { own: marks[i] ?? '', text, disconnects };
}

test('each client receives only its own answer while others disconnect', async () => {
  const behaviorFor = (i: number) => delayed((i % 5) * 10, echo({ chunkDelayMs: i % 4 }));
  upstream.script(
    'chat',
    Array.from(marks, (_, i) => behaviorFor(i)),
  );
  const received: Awaited<ReturnType<typeof receive>>[] = [];
  // The next request may reuse the connection of a disconnected client.
  const runClient = async (first: number) => {
    for (let i = first; i < marks.length; i += clientCount) received.push(await receive(i));
  };
  await Promise.all(Array.from({ length: clientCount }, (_, i) => runClient(i)));
  const foreign = received.flatMap(({ own, text }) =>
    (text.match(/mark-\d+-[0-9a-f-]{36}/g) ?? []).filter((mark) => mark !== own),
  );
  expect(foreign).toEqual([]);
  const missing = received.filter(
    ({ own, text, disconnects }) => !disconnects && !text.includes(own),
  );
  expect(missing).toEqual([]);
  const connections = new Set(upstream.requests.map(({ connection }) => connection));
  expect(connections.size).toBeLessThan(upstream.requests.length);
}, 120_000);
