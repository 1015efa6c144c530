/** The memory that long requests may have together, while their answers are under way. */
import { afterAll, afterEach, beforeAll, expect, mock, spyOn, test } from 'bun:test';
import { gated, say, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, readReply } from '../support/in-process.ts';

const megabyte = 1024 * 1024;
const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  // An eighth of each one's is 40 MB, and half of that is for a tenant that is alone.
  spyOn(process, 'constrainedMemory').mockReturnValue(640 * megabyte);
  gateway = await InProcessGateway.start({
    providers: { vendor: { dialect: 'openai', base_url: `${upstream.url}/v1` } },
    models: [chatModel('test/chat', [{ provider: 'vendor', model: 'chat' }])],
    limits: { body_bytes: 7 * megabyte },
    crew: 2,
  });
});
afterEach(() => mock.restore());
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

const chat = (megabytes: number, more: object = {}) => {
  const content = 'x'.repeat(megabytes * megabyte);
  return { model: 'test/chat', messages: [{ role: 'user', content }], max_tokens: 5, ...more };
};

/** As long as the longest text of a job, escaped; its model does not speak. */
const job =
  JSON.stringify({ model: 'test/chat', input: 'Hello.', voice: 'alloy' }) +
  ' '.repeat(2 * megabyte);

/** Its length is told by nobody. */
async function postInPieces(body: object) {
  const bytes = Buffer.from(JSON.stringify(body));
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += megabyte) yield bytes.subarray(at, at + megabyte);
  }
  const headers = { authorization: `Bearer ${gateway.keys.routing}` };
  const url = `${gateway.url}/v1/chat/completions`;
  return readReply(await fetch(url, { method: 'POST', headers, body: pieces() }));
}

test('is an eighth of the process’s, and is free again when an answer has ended', async () => {
  const late = gated('answer', 0, say('Later.'));
  upstream.script('chat', [late, late, late, late, say('Now.')]);
  const neighbour = await gateway.makeTenant({ id: 'neighbour', name: 'Neighbour' });
  const held = [
    gateway.post(chat(6, { stream: true })),
    postInPieces(chat(6, { stream: true })),
    gateway.post(chat(6)),
  ];
  await upstream.until((calls) => calls[2]);
  // With this one the first tenant has more than what is left for others.
  held.push(gateway.post(chat(6), { key: neighbour }));
  await upstream.until((calls) => calls[3]);
  const messages = { path: '/v1/messages' };
  const count = { path: '/v1/messages/count_tokens' };
  const jobs = { path: '/v1/jobs' };

  const refused = [
    await gateway.post(chat(6)),
    await postInPieces(chat(6)),
    await gateway.post(chat(6), messages),
    await gateway.post(chat(6), count),
    await gateway.post(job, jobs),
  ];
  for (const { status, error, headers } of refused) {
    expect(status).toBe(503);
    const message = 'This gateway has too many large requests in progress; try again shortly.';
    expect(error).toMatchObject({ message });
    expect(headers.get('retry-after')).toBe('5');
  }
  // A short one is not counted, also if it does not say how long it is.
  const short = [await gateway.post(chat(0)), await postInPieces(chat(0))];
  expect(short.map(({ status }) => status)).toEqual([200, 200]);

  upstream.open('answer');
  for (const { text } of await Promise.all(held)) expect(text).toContain('Later.');
  const served = [
    await postInPieces(chat(6)),
    await gateway.post(chat(6)),
    await gateway.post(chat(6), messages),
    await gateway.post(chat(6), count),
  ];
  expect(served.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  // Together they are longer than the room.
  for (let n = 0; n < 12; n++) {
    const { error } = await gateway.post(job, jobs);
    expect(error).toMatchObject({ type: 'model_capability_mismatch' });
  }
}, 120_000);

test('is enough for the longest, also when a reload has allowed longer ones', async () => {
  upstream.script('chat', say('Now.'));
  gateway.reload({ bodyBytes: 25 * megabyte });
  const twice = [gateway.post(chat(24)), gateway.post(chat(24))];
  expect((await Promise.all(twice)).map(({ status }) => status)).toEqual([200, 200]);
}, 120_000);
