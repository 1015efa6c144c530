/** A job that is refused is a request that was: it is in the log, and costs nothing. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { sql } from 'kysely';
import { wavFile } from '../support/audio-files.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { speech as spoken } from '../support/fake-upstream.ts';
import { type Reply, readReply } from '../support/in-process.ts';
import { withinOneMinute } from '../support/one-minute.ts';

let audio: AudioGateway;

beforeAll(async () => {
  audio = await AudioGateway.start([gift]);
});
afterAll(() => audio.stop());

const speech = { model: 'openai/tts-1', input: 'Hello', voice: 'alloy' };

/** A voice that costs nothing. */
const gift = {
  id: 'acme/gift',
  name: 'Gift',
  input_modalities: ['text'],
  output_modalities: ['audio'],
  features: ['speech'],
  endpoints: [{ provider: 'openai', model: 'gift', pricing: { characters: '0' } }],
};

const speak = (body: object, key?: string) =>
  audio.gateway.post(body, { path: '/v1/jobs', ...(key ? { key } : {}) });

async function listen(key: string, fields: Readonly<Record<string, string>> = {}): Promise<Reply> {
  const body = new FormData();
  body.append('model', 'openai/stt-1');
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  body.append('file', new File([wavFile(4) as Uint8Array<ArrayBuffer>], 'a.wav'));
  const headers = { authorization: `Bearer ${key}` };
  return readReply(await fetch(`${audio.gateway.url}/v1/jobs`, { method: 'POST', headers, body }));
}

const models = { speech: 'openai/tts-1', transcription: 'openai/stt-1' };
type Operation = keyof typeof models;

async function expectRow(refused: Reply, status: number, operation: Operation): Promise<void> {
  expect(refused.status).toBe(status);
  const { charges, ...record } = await audio.gateway.record(refused.requestId);
  expect(record).toMatchObject({
    status: 'error',
    error: refused.error.type,
    operation,
    // Who sends too much is refused before anything is read.
    requestedModel: status === 429 ? '' : models[operation],
  });
  expect(Object.values(charges)).toEqual([0, 0, 0, 0]);
}

test('a job with a faulty body is refused, and logged at no cost', async () => {
  await expectRow(await speak({ ...speech, input: 7 }), 400, 'speech');
});

test('a job for a model that its key may not use is refused, and logged at no cost', async () => {
  const key = await audio.gateway.makeKey({ models: ['other/*'] });
  await expectRow(await speak(speech, key), 403, 'speech');
  await expectRow(await listen(key), 403, 'transcription');
});

test('a job for which there are no credits is refused, and logged at no cost', async () => {
  const key = await audio.gateway.makeKey({ limit: 0 });
  await expectRow(await speak(speech, key), 402, 'speech');
  await expectRow(await listen(key), 402, 'transcription');
});

test('what is wrong with a job is told before its credits are looked at', async () => {
  const key = await audio.gateway.makeKey({ limit: 0 });
  const hook = { webhook_url: 'http://127.0.0.1:9/' };
  const unjoined = { input: 'Hello. '.repeat(1_000), response_format: 'flac' };
  for (const wrong of [{ voice: 'nobody' }, { speed: 9 }, unjoined, hook]) {
    const refused = await speak({ ...speech, ...wrong }, key);
    expect(refused.error.param).toBe(Object.keys(wrong).at(-1) ?? '');
    await expectRow(refused, 400, 'speech');
  }
  const refused = await listen(key, hook);
  expect(refused.error.param).toBe('webhook_url');
  await expectRow(refused, 400, 'transcription');
});

test('a job for what is free needs no credits', async () => {
  audio.openai.script('gift', [spoken()]);
  const key = await audio.gateway.makeKey({ limit: 0 });
  expect((await speak({ ...speech, model: 'acme/gift' }, key)).status).toBe(202);
});

test('a job is refused unless there are credits for all of its text', async () => {
  // Two pieces, without the space between them: 6,998 characters at $15 a million.
  const input = 'Hello. '.repeat(1_000).trim();
  const long = { ...speech, input, response_format: 'pcm' };
  const key = await audio.gateway.makeKey({ limit: 104_969 });
  const refused = await speak(long, key);
  await expectRow(refused, 402, 'speech');
  expect(refused.error.message).toMatch(/has 104969 credits left .* needs at least 104970\.$/);
  audio.openai.script('tts-1', [spoken(), spoken()]);
  const { status, json } = await speak(long, await audio.gateway.makeKey({ limit: 104_970 }));
  expect(status).toBe(202);
  const job = async () => (await audio.gateway.get(`/v1/jobs/${json.id}`)).json;
  while ((await job()).completed_at === null) await Bun.sleep(10);
  expect(await job()).toMatchObject({ status: 'succeeded', cost: 104_970 });
});

test('a job beyond the rate limit is refused, and logged at no cost', async () => {
  const refused = await withinOneMinute(async () => {
    const key = await audio.gateway.makeKey({ requests_per_minute: 1 });
    expect((await speak({ ...speech, input: 7 }, key)).status).toBe(400);
    return speak(speech, key);
  });
  await expectRow(refused, 429, 'speech');
});

test('a job that the store cannot take is refused, and logged as its client heard it', async () => {
  const { write } = audio.gateway.store.database;
  // What a driver says whose connection is gone.
  await sql`create trigger away before insert on jobs
    begin select raise(abort, 'Connection terminated unexpectedly'); end`.execute(write);
  const refused = [await speak(speech), await listen(audio.gateway.keys.routing)] as const;
  await sql`drop trigger away`.execute(write);
  await expectRow(refused[0], 503, 'speech');
  await expectRow(refused[1], 503, 'transcription');
});
