/** Long jobs through the full gateway: split, run by the demo model, charged, and joined. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { isObject } from '../../src/core/json.ts';
import { wavFile } from '../support/audio-files.ts';
import { dataOf } from '../support/byok.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { waitUntil } from '../support/wait-until.ts';

let gateway: InProcessGateway;

beforeAll(async () => {
  const settings = { providers: {}, models: [], demo: true };
  gateway = await InProcessGateway.start(settings);
}, 120_000);

afterAll(() => gateway.stop());

function ended(id: string): Promise<Record<string, unknown>> {
  return waitUntil(async () => {
    const { json } = await gateway.get(`/v1/jobs/${id}`);
    return json.status !== 'queued' && json.status !== 'running' && json;
  });
}

async function balance(): Promise<number> {
  const { json } = await gateway.get('/v1/customer/credits');
  return isObject(json.balance) ? Number(json.balance.total) : Number.NaN;
}

// A piece has at most 4,096 characters, so it fits 315 sentences of 12 characters and 314 spaces.
// The 3 pieces have 4,094, 4,094, and 909 characters: 9,097 in total, at 1 credit each.
const text = 'All is well. '.repeat(700);

test.each(['mp3', 'wav'] as const)(
  'a long text becomes one %s file',
  async (format) => {
    const before = await balance();
    const body = { model: 'demo/speech', voice: 'alloy', input: text, response_format: format };
    const created = await gateway.post(body, { path: '/v1/jobs' });
    expect(created.status).toBe(202);
    const job = await ended(String(created.json.id));
    expect(job.error).toBeNull();
    expect(job).toMatchObject({
      ...{ status: 'succeeded', progress: 1, cost: 9_097 },
      usage: { input_characters: 9_097 },
    });
    expect(await balance()).toBe(before - 9_097);
    const output = isObject(job.output) ? job.output : {};
    const file = await fetch(String(output.url));
    const mimeType = String(output.content_type);
    expect(file.headers.get('content-type')).toBe(mimeType);
    const parsed = await parseBuffer(await file.bytes(), { mimeType }, { duration: true });
    // The demo model plays at most 83 notes of 240 ms per call.
    expect(parsed.format.duration).toBeCloseTo(3 * 83 * 0.24, 2);
    expect(await discrepancies(gateway.store.database)).toEqual([]);
  },
  120_000,
);

test('the log and each receipt show the job_id of a piece', async () => {
  const body = { model: 'demo/speech', voice: 'alloy', input: text };
  const created = await gateway.post(body, { path: '/v1/jobs' });
  await ended(String(created.json.id));
  const alone = await gateway.post({ ...body, input: 'Hi.' }, { path: '/v1/audio/speech' });
  const { json } = await gateway.get('/v1/customer/logs?limit=4');
  const logs = Array.isArray(json.logs) ? json.logs.filter(isObject) : [];
  const { id } = created.json;
  expect(logs.map(({ job_id }) => job_id)).toEqual([null, id, id, id]);
  const jobOf = async (requestId: unknown) =>
    dataOf(await gateway.get(`/v1/customer/logs/${requestId}`)).job_id;
  expect([await jobOf(alone.requestId), await jobOf(logs[1]?.request_id)]).toEqual([null, id]);
});

test('repeated requests with one Idempotency-Key create one job', async () => {
  const before = await balance();
  const create = (input: string, key = 'job-1') => {
    const body = { model: 'demo/speech', voice: 'alloy', input };
    return gateway.post(body, { path: '/v1/jobs', headers: { 'idempotency-key': key } });
  };
  const [first, concurrent] = await Promise.all([create('Once only.'), create('Once only.')]);
  await ended(String(first.json.id));
  const later = await create('Once only.');
  expect([concurrent.json.id, later.json.id]).toEqual([first.json.id, first.json.id]);
  expect([first.status, concurrent.status, later.status]).toEqual([202, 202, 202]);
  expect(later.headers.get('idempotent-replayed')).toBe('true');
  expect((await create('Something else.')).status).toBe(409);
  // The key of a rejected request can be used again.
  expect((await create('', 'job-2')).status).toBe(400);
  const second = await create('Twice.', 'job-2');
  await ended(String(second.json.id));
  expect(second.json.id).not.toBe(first.json.id);
  // "Once only." and "Twice." have 16 characters in total.
  expect(await balance()).toBe(before - 16);
});

test('an Idempotency-Key does not show a job to a key that may not use its model', async () => {
  const body = { model: 'demo/speech', voice: 'alloy', input: 'For few.' };
  const create = (key?: string) => {
    const headers = { 'idempotency-key': 'job-of-few' };
    return gateway.post(body, { path: '/v1/jobs', headers, ...(key && { key }) });
  };
  const created = await create();
  await ended(String(created.json.id));
  const chatKey = await gateway.makeKey({ name: 'chats only', models: ['demo/chat'] });
  const rejected = await create(chatKey);
  expect(rejected.status).toBe(403);
  expect(rejected.json.error).toMatchObject({ type: 'forbidden', param: 'model' });
  expect(rejected.headers.get('idempotent-replayed')).toBeNull();
  const speechKey = await gateway.makeKey({ name: 'speaks', models: ['demo/speech'] });
  expect((await create(speechKey)).json.id).toBe(created.json.id);
});

test('a recording of 48 MB becomes one transcript with continuous timestamps', async () => {
  // 4,200 notes of 240 ms and 11,520 bytes each last 1,008 seconds. The recording is cut after
  // 24 MiB, which is 524.288 seconds.
  const before = await balance();
  const form = new FormData();
  form.set('model', 'demo/transcribe');
  form.set('response_format', 'verbose_json');
  form.set('file', new File([wavFile(4_200).slice()], 'talk.wav'));
  const headers = { authorization: `Bearer ${gateway.keys.routing}` };
  const init = { method: 'POST', headers, body: form };
  const created: unknown = await (await fetch(`${gateway.url}/v1/jobs`, init)).json();
  const job = await ended(isObject(created) ? String(created.id) : '');
  expect(job.error).toBeNull();
  expect(job).toMatchObject({ status: 'succeeded', progress: 1, usage: { seconds: 1_008 } });
  const output = isObject(job.output) ? job.output : {};
  const transcript: unknown = await (await fetch(String(output.url))).json();
  expect(transcript).toMatchObject({
    duration: 1_008,
    // 2 sentences per part. The second part starts at the cut.
    segments: [
      { id: 0, start: 0 },
      { id: 1, end: 524.288 },
      { id: 2, start: 524.288 },
      { id: 3, end: 1_008 },
    ],
  });
  // At $0.001 per minute, 524.288 s and 483.712 s cost 8,738.1 and 8,061.9 credits, rounded up.
  expect(job.cost).toBe(8_739 + 8_062);
  expect(await balance()).toBe(before - 16_801);
  expect(await discrepancies(gateway.store.database)).toEqual([]);
}, 120_000);
