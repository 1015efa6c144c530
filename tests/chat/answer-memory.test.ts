/** The memory budget that all buffered answers share. */
import { afterAll, afterEach, beforeAll, expect, mock, spyOn, test } from 'bun:test';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { within } from '../support/wait-until.ts';

const megabyte = 1024 * 1024;
const chunk = Buffer.alloc(megabyte, 'x');

/** Answers, by prompt, that pause before their end until the test resolves `wait`. */
const paused = new Map<string, { sent: () => void; wait: Promise<void> }>();

/** Sends as many megabytes as the prompt says, without Content-Length. */
async function* answer(prompt: string, isBroken = false) {
  yield '{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,';
  yield '"finish_reason":"stop","message":{"role":"assistant","content":"';
  for (let sent = 0; sent < Number.parseInt(prompt, 10); sent += 1) yield chunk;
  const gate = paused.get(prompt);
  gate?.sent();
  await gate?.wait;
  if (isBroken) yield '"';
  yield '"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';
}

/** Promises that resolve when the calls for the paused vectors have ended. */
const vectorsEnded: Promise<void>[] = [];

/** Sends an embedding with as many megabytes of padding as the input says. */
async function* vector(input: string, client: AbortSignal) {
  const ended = Promise.withResolvers<void>();
  client.addEventListener('abort', () => ended.resolve());
  const gate = paused.get(input);
  if (gate) vectorsEnded.push(ended.promise);
  yield '{"object":"list","padding":"';
  for (let sent = 0; sent < Number.parseInt(input, 10); sent += 1) yield chunk;
  await gate?.wait;
  for (let sent = 0; gate && sent < 20; sent += 1) yield chunk;
  yield '","data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}';
  ended.resolve();
}

interface RequestBody {
  readonly messages: readonly [{ readonly content: string }];
  readonly input: readonly [string];
}

const upstream = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  async fetch(request) {
    const { messages, input } = (await request.json()) as RequestBody;
    const { pathname } = new URL(request.url);
    const chat = () => {
      if (pathname.startsWith('/endless')) return answer('40');
      return answer(messages[0].content, pathname.startsWith('/broken'));
    };
    const chunks = pathname.endsWith('/embeddings') ? vector(input[0], request.signal) : chat();
    return new Response(chunks, { headers: { 'content-type': 'application/json' } });
  },
});

let gateway: InProcessGateway;
beforeAll(async () => {
  // With so little memory, the budget has its minimum size: 3 answers of 64 MB. A single tenant
  // gets half of it.
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

const chat = (content: string, key?: string, model = 'test/chat') =>
  gateway.post(
    { model, messages: [{ role: 'user', content }], max_tokens: 5 },
    key === undefined ? {} : { key },
  );
const embed = (input: readonly string[]) =>
  gateway.post({ model: 'test/vectors', input }, { path: '/v1/embeddings' });

test('rejects an answer above the memory budget and frees memory when answers end', async () => {
  const neighbor = await gateway.makeTenant({ id: 'neighbor', name: 'Neighbor' });
  const sent = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  paused.set('40, paused', { sent: sent.resolve, wait: end.promise });
  const first = chat('40, paused');
  await within(sent.promise, 'the answer to be sent');

  const refused = await chat('60');
  expect(refused.status).toBe(503);
  const message = 'The gateway is handling too many large responses. Try again shortly.';
  expect(refused.error).toMatchObject({ message, type: 'service_unavailable' });
  expect(refused.headers.get('retry-after')).toBe('5');
  expect((await gateway.record(refused.requestId)).charges.modelCharge).toBe(0);
  // No tenant may use more than what stays free for the others, so this answer still fits.
  expect((await chat('20', neighbor)).status).toBe(200);

  end.resolve();
  expect((await first).status).toBe(200);
  expect((await chat('60')).status).toBe(200);
}, 120_000);

test('frees the memory of parallel calls when the request is rejected', async () => {
  const { promise: wait, resolve: end } = Promise.withResolvers<void>();
  paused.set('40, held', { sent: () => undefined, wait });
  expect((await embed(Array<string>(3).fill('40, held'))).status).toBe(503);
  end();
  await Promise.all(vectorsEnded);
  expect(vectorsEnded).toHaveLength(3);
  expect((await chat('60')).status).toBe(200);
}, 120_000);

test('frees the memory of an unusable answer before trying the next provider', async () => {
  expect((await chat('60', undefined, 'test/next')).status).toBe(200);
}, 120_000);

test('frees the memory of each embedding batch before sending the next batch', async () => {
  expect((await embed(Array<string>(5).fill('20'))).status).toBe(200);
}, 120_000);

test('tries the next provider if an answer is too long for a Responses stream', async () => {
  const request = { model: 'test/shorter', input: '1', stream: true };
  const { requestId, text } = await gateway.post(request, { path: '/v1/responses' });
  expect(text).toContain('event: response.completed\n');
  const { attempts } = await gateway.record(requestId);
  expect(attempts).toMatchObject([
    { provider: 'endless', outcome: 'malformed', message: expect.stringContaining('too long') },
    { provider: 'vendor', outcome: 'answered' },
  ]);
}, 120_000);
