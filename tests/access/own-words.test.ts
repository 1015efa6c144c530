/** Many answers at once, of two tenants, over connections to the provider that are used again. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { delayed, echo, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const atOnce = 24;
const oneAfterAnother = 10;
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
  { length: atOnce * oneAfterAnother },
  (_, i) => `mark-${i}-${crypto.randomUUID()}`,
);

/** In every client's words, streamed and whole. */
function requestOf(i: number): { path: string; body: object } {
  const words = `${marks[i]} ${'and so on '.repeat(i % 9)}${marks[i]}`;
  const messages = [{ role: 'user', content: words }];
  const model = 'test/chat';
  const forms = [
    { path: '/v1/chat/completions', body: { model, messages, stream: true } },
    { path: '/v1/chat/completions', body: { model, messages } },
    { path: '/v1/messages', body: { model, messages, max_tokens: 500, stream: true } },
    { path: '/v1/responses', body: { model, input: words, stream: true } },
  ] as const;
  return forms[i % forms.length] ?? forms[0];
}

/** What a client has heard when it is over; every third hangs up at some moment. */
async function hear(i: number): Promise<{ own: string; text: string; isLeft: boolean }> {
  const { path, body } = requestOf(i);
  const leaving = new AbortController();
  const isLeft = i % 3 === 0;
  if (isLeft) setTimeout(() => leaving.abort(), (i * 7) % 60);
  let text = '';
  try {
    const key = keys[i % keys.length] ?? '';
    const response = await gateway.fetch(body, { path, key, signal: leaving.signal });
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true });
  } catch (error) {
    if (!isLeft) throw error;
  }
  return { own: marks[i] ?? '', text, isLeft };
}

test('each client hears its own words and nobody else’s, whoever leaves', async () => {
  const way = (i: number) => delayed((i % 5) * 10, echo({ chunkDelayMs: i % 4 }));
  upstream.script(
    'chat',
    Array.from(marks, (_, i) => way(i)),
  );
  const heard: Awaited<ReturnType<typeof hear>>[] = [];
  // Whoever comes next may get the connection of somebody who has just left.
  const client = async (first: number) => {
    for (let i = first; i < marks.length; i += atOnce) heard.push(await hear(i));
  };
  await Promise.all(Array.from({ length: atOnce }, (_, i) => client(i)));
  const foreign = heard.flatMap(({ own, text }) =>
    (text.match(/mark-\d+-[0-9a-f-]{36}/g) ?? []).filter((mark) => mark !== own),
  );
  expect(foreign).toEqual([]);
  const unheard = heard.filter(({ own, text, isLeft }) => !isLeft && !text.includes(own));
  expect(unheard).toEqual([]);
  const connections = new Set(upstream.requests.map(({ connection }) => connection));
  expect(connections.size).toBeLessThan(upstream.requests.length);
}, 120_000);
