/** A long text through the whole gateway: cut, spoken by the demo, charged, joined, fetched. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { isObject } from '../../src/core/json.ts';
import { wavFile } from '../support/audio-files.ts';
import { discrepancies } from '../support/book-check.ts';
import { dataOf } from '../support/byok.ts';
import { InProcessGateway } from '../support/in-process.ts';

let gateway: InProcessGateway;

beforeAll(async () => {
  const settings = { providers: {}, models: [], demo: true };
  gateway = await InProcessGateway.start(settings);
}, 120_000);

afterAll(() => gateway.stop());

async function ended(id: string): Promise<Record<string, unknown>> {
  for (;;) {
    const { json } = await gateway.get(`/v1/jobs/${id}`);
    if (json.status !== 'queued' && json.status !== 'running') return json;
    await Bun.sleep(20);
  }
}

async function balance(): Promise<number> {
  const { json } = await gateway.get('/v1/customer/credits');
  return isObject(json.balance) ? Number(json.balance.total) : Number.NaN;
}

// 315 sentences of 12 characters and a space are as many as 4,096 characters hold: 4,094 of them.
// The rest makes 4,094 and 909, so 9,097 characters are spoken, each a credit.
const text = 'All is well. '.repeat(700);

test.each(['mp3', 'wav'] as const)(
  'a long text becomes one %s file',
  async (format) => {
    const before = await balance();
    const body = { model: 'demo/speech', voice: 'alloy', input: text, response_format: format };
    const made = await gateway.post(body, { path: '/v1/jobs' });
    expect(made.status).toBe(202);
    const job = await ended(String(made.json.id));
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
    // The demo plays at most 83 notes of 240 ms for one call.
    expect(parsed.format.duration).toBeCloseTo(3 * 83 * 0.24, 2);
    expect(await discrepancies(gateway.store.database)).toEqual([]);
  },
  120_000,
);

test('the log and each receipt say of which job a request was a piece', async () => {
  const body = { model: 'demo/speech', voice: 'alloy', input: text };
  const made = await gateway.post(body, { path: '/v1/jobs' });
  await ended(String(made.json.id));
  const alone = await gateway.post({ ...body, input: 'Hi.' }, { path: '/v1/audio/speech' });
  const { json } = await gateway.get('/v1/customer/logs?limit=4');
  const logs = Array.isArray(json.logs) ? json.logs.filter(isObject) : [];
  const { id } = made.json;
  expect(logs.map(({ job_id }) => job_id)).toEqual([null, id, id, id]);
  const jobOf = async (requestId: unknown) =>
    dataOf(await gateway.get(`/v1/customer/logs/${requestId}`)).job_id;
  expect([await jobOf(alone.requestId), await jobOf(logs[1]?.request_id)]).toEqual([null, id]);
});

test('an Idempotency-Key makes one job, whoever asks how often', async () => {
  const before = await balance();
  const ask = (input: string, key = 'job-1') => {
    const body = { model: 'demo/speech', voice: 'alloy', input };
    return gateway.post(body, { path: '/v1/jobs', headers: { 'idempotency-key': key } });
  };
  const [one, two] = await Promise.all([ask('Once only.'), ask('Once only.')]);
  await ended(String(one.json.id));
  const later = await ask('Once only.');
  expect([two.json.id, later.json.id]).toEqual([one.json.id, one.json.id]);
  expect([one.status, two.status, later.status]).toEqual([202, 202, 202]);
  expect(later.headers.get('idempotent-replayed')).toBe('true');
  expect((await ask('Something else.')).status).toBe(409);
  // A creation that was refused may be repeated under its name.
  expect((await ask('', 'job-2')).status).toBe(400);
  const second = await ask('Twice.', 'job-2');
  await ended(String(second.json.id));
  expect(second.json.id).not.toBe(one.json.id);
  // «Once only.» and «Twice.» are 16 characters.
  expect(await balance()).toBe(before - 16);
});

test('an Idempotency-Key shows no job to a key that may not use its model', async () => {
  const body = { model: 'demo/speech', voice: 'alloy', input: 'For few.' };
  const ask = (key?: string) => {
    const headers = { 'idempotency-key': 'job-of-few' };
    return gateway.post(body, { path: '/v1/jobs', headers, ...(key && { key }) });
  };
  const made = await ask();
  await ended(String(made.json.id));
  const closed = await gateway.makeKey({ name: 'chats only', models: ['demo/chat'] });
  const refused = await ask(closed);
  expect(refused.status).toBe(403);
  expect(refused.json.error).toMatchObject({ type: 'forbidden', param: 'model' });
  expect(refused.headers.get('idempotent-replayed')).toBeNull();
  const open = await gateway.makeKey({ name: 'speaks', models: ['demo/speech'] });
  expect((await ask(open)).json.id).toBe(made.json.id);
});

test('a recording of 48 MB becomes one transcript with times that go on', async () => {
  // 4,200 notes of 240 ms and 11,520 bytes: 1,008 seconds, cut behind 24 MiB or 524.288 seconds.
  const before = await balance();
  const form = new FormData();
  form.set('model', 'demo/transcribe');
  form.set('response_format', 'verbose_json');
  form.set('file', new File([wavFile(4_200).slice()], 'talk.wav'));
  const headers = { authorization: `Bearer ${gateway.keys.routing}` };
  const init = { method: 'POST', headers, body: form };
  const made: unknown = await (await fetch(`${gateway.url}/v1/jobs`, init)).json();
  const job = await ended(isObject(made) ? String(made.id) : '');
  expect(job.error).toBeNull();
  expect(job).toMatchObject({ status: 'succeeded', progress: 1, usage: { seconds: 1_008 } });
  const output = isObject(job.output) ? job.output : {};
  const transcript: unknown = await (await fetch(String(output.url))).json();
  expect(transcript).toMatchObject({
    duration: 1_008,
    // Two sentences for each part; the second part starts where the first was cut.
    segments: [
      { id: 0, start: 0 },
      { id: 1, end: 524.288 },
      { id: 2, start: 524.288 },
      { id: 3, end: 1_008 },
    ],
  });
  // $0.001 a minute: 524.288 s and 483.712 s are 8,738.1 and 8,061.9 credits, each rounded up.
  expect(job.cost).toBe(8_739 + 8_062);
  expect(await balance()).toBe(before - 16_801);
  expect(await discrepancies(gateway.store.database)).toEqual([]);
}, 120_000);
