/** The memory that long answers may have together, where they come whole. */
import { afterAll, afterEach, beforeAll, expect, mock, spyOn, test } from 'bun:test';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const megabyte = 1024 * 1024;
const piece = Buffer.alloc(megabyte, 'x');

/** The last words of an answer wait until the test lets them go. */
const held = new Map<string, { sent: () => void; wait: Promise<void> }>();

/** As many megabytes as the question says, of a length that nobody tells. */
async function* answer(question: string, isBroken = false) {
  yield '{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,';
  yield '"finish_reason":"stop","message":{"role":"assistant","content":"';
  for (let sent = 0; sent < Number.parseInt(question, 10); sent += 1) yield piece;
  const gate = held.get(question);
  gate?.sent();
  await gate?.wait;
  if (isBroken) yield '"';
  yield '"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';
}

/** When the calls for those that are held have ended. */
const vectorsOver: Promise<void>[] = [];

/** The same for a vector. */
async function* vector(question: string, client: AbortSignal) {
  const over = Promise.withResolvers<void>();
  client.addEventListener('abort', () => over.resolve());
  const gate = held.get(question);
  if (gate) vectorsOver.push(over.promise);
  yield '{"object":"list","padding":"';
  for (let sent = 0; sent < Number.parseInt(question, 10); sent += 1) yield piece;
  await gate?.wait;
  for (let sent = 0; gate && sent < 20; sent += 1) yield piece;
  yield '","data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}';
  over.resolve();
}

interface Asked {
  readonly messages: readonly [{ readonly content: string }];
  readonly input: readonly [string];
}

const upstream = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  async fetch(request) {
    const { messages, input } = (await request.json()) as Asked;
    const { pathname } = new URL(request.url);
    const chat = () => {
      if (pathname.startsWith('/endless')) return answer('40');
      return answer(messages[0].content, pathname.startsWith('/broken'));
    };
    const said = pathname.endsWith('/embeddings') ? vector(input[0], request.signal) : chat();
    return new Response(said, { headers: { 'content-type': 'application/json' } });
  },
});

let gateway: InProcessGateway;
beforeAll(async () => {
  // So little that the room is three of the longest, 64 MB: 96 MB are for a tenant alone.
  spyOn(process, 'constrainedMemory').mockReturnValue(256 * megabyte);
  const at = (path: string) => ({
    ...{ dialect: 'openai', base_url: upstream.url.origin + path },
    quirks: { embedding_batch: 1 },
  });
  const vendor = { provider: 'vendor', model: 'm' };
  const broken = { provider: 'broken', model: 'm' };
  const endless = { provider: 'endless', model: 'm' };
  const embedder = {
    ...{ id: 'test/vectors', name: 'Vectors', input_modalities: ['text'] },
    ...{ output_modalities: ['text'], features: ['embeddings'] },
    endpoints: [{ ...vendor, pricing: { prompt: '1', completion: '0' } }],
  };
  gateway = await InProcessGateway.start({
    providers: { vendor: at('/v1'), broken: at('/broken'), endless: at('/endless') },
    models: [
      chatModel('test/chat', [vendor]),
      chatModel('test/next', [broken, vendor]),
      chatModel('test/shorter', [endless, vendor]),
      embedder,
    ],
  });
});
afterEach(() => mock.restore());
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

const ask = (content: string, key?: string, model = 'test/chat') =>
  gateway.post(
    { model, messages: [{ role: 'user', content }], max_tokens: 5 },
    key === undefined ? {} : { key },
  );
const embed = (input: readonly string[]) =>
  gateway.post({ model: 'test/vectors', input }, { path: '/v1/embeddings' });

test('is bounded, and is free again when they have ended', async () => {
  const neighbour = await gateway.makeTenant({ id: 'neighbour', name: 'Neighbour' });
  const sent = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  held.set('40, later', { sent: sent.resolve, wait: end.promise });
  const first = ask('40, later');
  await sent.promise;

  const refused = await ask('60');
  expect(refused.status).toBe(503);
  const message = 'This gateway has too many large answers in progress; try again shortly.';
  expect(refused.error).toMatchObject({ message, type: 'service_unavailable' });
  expect(refused.headers.get('retry-after')).toBe('5');
  expect((await gateway.record(refused.requestId)).charges.modelCharge).toBe(0);
  // Of what one tenant has, no other finds less than the same.
  expect((await ask('20', neighbour)).status).toBe(200);

  end.resolve();
  expect((await first).status).toBe(200);
  expect((await ask('60')).status).toBe(200);
}, 120_000);

test('is not taken by what goes on of a request that was refused', async () => {
  const { promise: wait, resolve: end } = Promise.withResolvers<void>();
  held.set('40, held', { sent: () => undefined, wait });
  expect((await embed(Array<string>(3).fill('40, held'))).status).toBe(503);
  end();
  await Promise.all(vectorsOver);
  expect(vectorsOver).toHaveLength(3);
  expect((await ask('60')).status).toBe(200);
}, 120_000);

test('is free for the next provider when the answer of one cannot be used', async () => {
  expect((await ask('60', undefined, 'test/next')).status).toBe(200);
}, 120_000);

test('is free for the next vectors of a request when those before were read', async () => {
  expect((await embed(Array<string>(5).fill('20'))).status).toBe(200);
}, 120_000);

test('one that is too long for a stream of Responses is followed by that of the next', async () => {
  const asked = { model: 'test/shorter', input: '1', stream: true };
  const { requestId, text } = await gateway.post(asked, { path: '/v1/responses' });
  expect(text).toContain('event: response.completed\n');
  const { attempts } = await gateway.record(requestId);
  expect(attempts).toMatchObject([
    { provider: 'endless', outcome: 'malformed', message: expect.stringContaining('too long') },
    { provider: 'vendor', outcome: 'answered' },
  ]);
}, 120_000);
