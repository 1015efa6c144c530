/** The memory budget that all large request bodies share until their answers end. */
import { afterAll, afterEach, beforeAll, expect, mock, spyOn, test } from 'bun:test';
import { chatAnswer, gated, json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, readReply } from '../support/in-process.ts';

const megabyte = 1024 * 1024;
const upstream = startFakeUpstream();
/** Serves a PNG with the number of megabytes in its path. */
const images = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch(request) {
    downloads.push(request.url);
    const size = Number(new URL(request.url).pathname.slice(1)) * megabyte;
    return new Response(Buffer.alloc(size, '\x89PNG\r\n\x1a\n', 'latin1'));
  },
});
const downloads: string[] = [];
let gateway: InProcessGateway;

beforeAll(async () => {
  // Each of the 2 processes has 320 MB. The budget is an eighth of that, 40 MB, and one tenant may
  // use half of it.
  spyOn(process, 'constrainedMemory').mockReturnValue(640 * megabyte);
  gateway = await InProcessGateway.start({
    private_addresses: ['127.0.0.1'],
    providers: {
      vendor: {
        dialect: 'openai',
        base_url: `${upstream.url}/v1`,
        quirks: { remote_images: 'inline' },
      },
    },
    models: [
      chatModel('test/chat', [{ provider: 'vendor', model: 'chat' }]),
      chatModel('test/fallback', [
        { provider: 'vendor', model: 'broken' },
        { provider: 'vendor', model: 'chat' },
      ]),
    ],
    limits: { body_bytes: 7 * megabyte },
    workers: 2,
  });
});
afterEach(() => mock.restore());
afterAll(async () => {
  await images.stop(true);
  await gateway.stop();
  await upstream.stop();
});

const chat = (megabytes: number, more: object = {}) => {
  const content = 'x'.repeat(megabytes * megabyte);
  return { model: 'test/chat', messages: [{ role: 'user', content }], max_tokens: 5, ...more };
};

/** A job body as long as the longest input after escaping. Its model doesn't support speech. */
const job =
  JSON.stringify({ model: 'test/chat', input: 'Hello.', voice: 'alloy' }) +
  ' '.repeat(2 * megabyte);

/** Sends the body in chunks, without Content-Length. */
async function postChunked(body: object) {
  const bytes = Buffer.from(JSON.stringify(body));
  async function* chunks() {
    for (let index = 0; index < bytes.length; index += megabyte)
      yield bytes.subarray(index, index + megabyte);
  }
  const headers = { authorization: `Bearer ${gateway.keys.routing}` };
  const url = `${gateway.url}/v1/chat/completions`;
  return readReply(await fetch(url, { method: 'POST', headers, body: chunks() }));
}

test('rejects large bodies above the memory budget and frees memory when answers end', async () => {
  const delayed = gated('answer', 0, chatAnswer('Later.'));
  upstream.script('chat', [delayed, delayed, delayed, delayed, chatAnswer('Now.')]);
  const neighbor = await gateway.makeTenant({ id: 'neighbor', name: 'Neighbor' });
  const pending = [
    gateway.post(chat(6, { stream: true })),
    postChunked(chat(6, { stream: true })),
    gateway.post(chat(6)),
  ];
  await upstream.until((calls) => calls[2]);
  // After this request, the first tenant uses more memory than is left for the others.
  pending.push(gateway.post(chat(6), { key: neighbor }));
  await upstream.until((calls) => calls[3]);
  const messages = { path: '/v1/messages' };
  const count = { path: '/v1/messages/count_tokens' };
  const jobs = { path: '/v1/jobs' };

  const rejected = [
    await gateway.post(chat(6)),
    await postChunked(chat(6)),
    await gateway.post(chat(6), messages),
    await gateway.post(chat(6), count),
    await gateway.post(job, jobs),
  ];
  for (const { status, error, headers } of rejected) {
    expect(status).toBe(503);
    const message = 'The gateway is handling too many large requests. Try again shortly.';
    expect(error).toMatchObject({ message });
    expect(headers.get('retry-after')).toBe('5');
  }
  // A small body isn't counted, even without Content-Length.
  const short = [await gateway.post(chat(0)), await postChunked(chat(0))];
  expect(short.map(({ status }) => status)).toEqual([200, 200]);

  upstream.open('answer');
  for (const { text } of await Promise.all(pending)) expect(text).toContain('Later.');
  const served = [
    await postChunked(chat(6)),
    await gateway.post(chat(6)),
    await gateway.post(chat(6), messages),
    await gateway.post(chat(6), count),
  ];
  expect(served.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  // In total, these requests exceed the budget, but each one frees its memory when it ends.
  for (let n = 0; n < 12; n++) {
    const { error } = await gateway.post(job, jobs);
    expect(error).toMatchObject({ type: 'model_capability_mismatch' });
  }
}, 120_000);

/** Returns a request with an image of this size, which takes a third more as base64. */
const withImage = (megabytes: number, model = 'test/chat') => {
  const image_url = { url: `http://127.0.0.1:${images.port}/${megabytes}` };
  return { model, messages: [{ role: 'user', content: [{ type: 'image_url', image_url }] }] };
};

test('counts downloaded images in the memory budget until the answer ends', async () => {
  upstream.script('chat', [gated('image', 0, chatAnswer('A cat.')), chatAnswer('A dog.')]);
  const neighbor = await gateway.makeTenant({ id: 'small', name: 'Small images' });
  const seen = upstream.requests.length;
  const pending = gateway.post(withImage(12));
  await upstream.until((calls) => calls[seen]);

  const { status, error, headers } = await gateway.post(withImage(12));
  expect(status).toBe(503);
  const message = 'The gateway is handling too many large requests. Try again shortly.';
  expect(error).toMatchObject({ message });
  expect(headers.get('retry-after')).toBe('5');
  expect((await gateway.post(withImage(3), { key: neighbor })).status).toBe(200);

  upstream.open('image');
  expect((await pending).text).toContain('A cat.');
  expect((await gateway.post(withImage(12))).status).toBe(200);
}, 120_000);

test('downloads images once for all providers that a request tries', async () => {
  upstream.script('broken', json(500, { error: { message: 'Broken.' } }));
  upstream.script('chat', chatAnswer('A cat.'));
  downloads.length = 0;
  expect((await gateway.post(withImage(1, 'test/fallback'))).text).toContain('A cat.');
  expect(downloads).toHaveLength(1);
}, 120_000);

test('uses at most 192 MiB for long bodies unless limits.body_memory_bytes allows more', async () => {
  spyOn(process, 'constrainedMemory').mockReturnValue(64 * 1024 * megabyte);
  const large = await InProcessGateway.start({
    providers: { vendor: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'key' } },
    models: [chatModel('test/chat', [{ provider: 'vendor', model: 'chat' }])],
  });
  try {
    const delayed = gated('long', 0, chatAnswer('Later.'));
    upstream.script(
      'chat',
      Array.from({ length: 6 }, () => delayed),
    );
    const seen = upstream.requests.length;
    const pending = Array.from({ length: 5 }, () => large.post(chat(18)));
    await upstream.until((calls) => calls[seen + 4]);
    // A tenant may use half of the budget, 96 MB.
    expect((await large.post(chat(18))).status).toBe(503);
    large.reload({ bodyMemoryBytes: 400 * megabyte });
    pending.push(large.post(chat(18)));
    await upstream.until((calls) => calls[seen + 5]);
    upstream.open('long');
    for (const { status } of await Promise.all(pending)) expect(status).toBe(200);
  } finally {
    await large.stop();
  }
}, 120_000);

test('accepts bodies of the maximum size after a reload raises limits.body_bytes', async () => {
  upstream.script('chat', chatAnswer('Now.'));
  gateway.reload({ bodyBytes: 25 * megabyte });
  const twice = [gateway.post(chat(24)), gateway.post(chat(24))];
  expect((await Promise.all(twice)).map(({ status }) => status)).toEqual([200, 200]);
}, 120_000);
