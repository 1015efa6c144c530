/** The memory that long answers may have together, where they come whole. */
import { afterAll, afterEach, beforeAll, expect, mock, spyOn, test } from 'bun:test';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const megabyte = 1024 * 1024;
const piece = Buffer.alloc(megabyte, 'x');

/** The last words of an answer wait until the test lets them go. */
const held = new Map<string, { sent: () => void; wait: Promise<void> }>();

/** As many megabytes as the question says, of a length that nobody tells. */
async function* answer(question: string) {
  yield '{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,';
  yield '"finish_reason":"stop","message":{"role":"assistant","content":"';
  for (let sent = 0; sent < Number.parseInt(question, 10); sent += 1) yield piece;
  const gate = held.get(question);
  gate?.sent();
  await gate?.wait;
  yield '"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';
}

const upstream = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  async fetch(request) {
    const asked = (await request.json()) as { messages: [{ content: string }] };
    const headers = { 'content-type': 'application/json' };
    return new Response(answer(asked.messages[0].content), { headers });
  },
});

let gateway: InProcessGateway;
beforeAll(async () => {
  // So little that the room is twice the longest answer, 64 MB: half is for a tenant alone.
  spyOn(process, 'constrainedMemory').mockReturnValue(256 * megabyte);
  gateway = await InProcessGateway.start({
    providers: { vendor: { dialect: 'openai', base_url: `${upstream.url.origin}/v1` } },
    models: [chatModel('test/chat', [{ provider: 'vendor', model: 'm' }])],
  });
});
afterEach(() => mock.restore());
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

const ask = (content: string, key?: string) =>
  gateway.post(
    { model: 'test/chat', messages: [{ role: 'user', content }], max_tokens: 5 },
    key === undefined ? {} : { key },
  );

test('is bounded, and is free again when they have ended', async () => {
  const neighbour = await gateway.makeTenant({ id: 'neighbour', name: 'Neighbour' });
  const sent = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  held.set('40, later', { sent: sent.resolve, wait: end.promise });
  const first = ask('40, later');
  await sent.promise;

  const refused = await ask('60');
  expect(refused.status).toBe(503);
  const message = 'Too many long answers are under way here; try again shortly.';
  expect(refused.error).toMatchObject({ message, type: 'service_unavailable' });
  expect(refused.headers.get('retry-after')).toBe('5');
  expect((await gateway.record(refused.requestId)).charges.modelCharge).toBe(0);
  // Of what one tenant has, no other finds less than the same.
  expect((await ask('20', neighbour)).status).toBe(200);

  end.resolve();
  expect((await first).status).toBe(200);
  expect((await ask('60')).status).toBe(200);
}, 120_000);
