/** Rejected job requests are logged and free of charge. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { sql } from 'kysely';
import { wavFile } from '../support/audio-files.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { speech as speechAnswer } from '../support/fake-upstream.ts';
import { type Reply, readReply } from '../support/in-process.ts';
import { waitUntil } from '../support/wait-until.ts';

let audio: AudioGateway;

beforeAll(async () => {
  audio = await AudioGateway.start([freeModel]);
});
afterAll(() => audio.stop());

const speech = { model: 'openai/tts-1', input: 'Hello', voice: 'alloy' };

/** A speech model that costs nothing. */
const freeModel = {
  id: 'acme/free',
  name: 'Free',
  input_modalities: ['text'],
  output_modalities: ['audio'],
  features: ['speech'],
  endpoints: [{ provider: 'openai', model: 'free', pricing: { characters: '0' } }],
};

const createSpeech = (body: object, key?: string) =>
  audio.gateway.post(body, { path: '/v1/jobs', ...(key ? { key } : {}) });

async function createTranscription(
  key: string,
  fields: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const body = new FormData();
  body.append('model', 'openai/stt-1');
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  body.append('file', new File([wavFile(4) as Uint8Array<ArrayBuffer>], 'a.wav'));
  const headers = { authorization: `Bearer ${key}` };
  return readReply(await fetch(`${audio.gateway.url}/v1/jobs`, { method: 'POST', headers, body }));
}

const models = { speech: 'openai/tts-1', transcription: 'openai/stt-1' };
type Operation = keyof typeof models;

async function expectRow(rejected: Reply, status: number, operation: Operation): Promise<void> {
  expect(rejected.status).toBe(status);
  const { charges, ...record } = await audio.gateway.record(rejected.requestId);
  expect(record).toMatchObject({
    status: 'error',
    error: rejected.error.type,
    operation,
    // Rate limits apply before the body is read.
    requestedModel: status === 429 ? '' : models[operation],
  });
  expect(Object.values(charges)).toEqual([0, 0, 0, 0]);
}

test('a job with an invalid body is logged at no cost', async () => {
  await expectRow(await createSpeech({ ...speech, input: 7 }), 400, 'speech');
});

test('a job for a model that its key may not use is logged at no cost', async () => {
  const key = await audio.gateway.makeKey({ models: ['other/*'] });
  await expectRow(await createSpeech(speech, key), 403, 'speech');
  await expectRow(await createTranscription(key), 403, 'transcription');
});

test('a job without enough credits is logged at no cost', async () => {
  const key = await audio.gateway.makeKey({ limit: 0 });
  await expectRow(await createSpeech(speech, key), 402, 'speech');
  await expectRow(await createTranscription(key), 402, 'transcription');
});

test('the error of an invalid job takes precedence over missing credits', async () => {
  const key = await audio.gateway.makeKey({ limit: 0 });
  const hook = { webhook_url: 'http://127.0.0.1:9/' };
  const unjoined = { input: 'Hello. '.repeat(1_000), response_format: 'flac' };
  for (const invalid of [{ voice: 'nobody' }, { speed: 9 }, unjoined, hook]) {
    const rejected = await createSpeech({ ...speech, ...invalid }, key);
    expect(rejected.error.param).toBe(Object.keys(invalid).at(-1) ?? '');
    await expectRow(rejected, 400, 'speech');
  }
  const rejected = await createTranscription(key, hook);
  expect(rejected.error.param).toBe('webhook_url');
  await expectRow(rejected, 400, 'transcription');
});

test('a job for a free model needs no credits', async () => {
  audio.openai.script('free', [speechAnswer()]);
  const key = await audio.gateway.makeKey({ limit: 0 });
  expect((await createSpeech({ ...speech, model: 'acme/free' }, key)).status).toBe(202);
});

test('a job is rejected unless there are enough credits for its full text', async () => {
  // 2 pieces, without the space between them: 6,998 characters at $15 per million.
  const input = 'Hello. '.repeat(1_000).trim();
  const long = { ...speech, input, response_format: 'pcm' };
  const key = await audio.gateway.makeKey({ limit: 104_969 });
  const rejected = await createSpeech(long, key);
  await expectRow(rejected, 402, 'speech');
  expect(rejected.error.message).toMatch(/has 104969 credits left; .* needs at least 104970\./);
  audio.openai.script('tts-1', [speechAnswer(), speechAnswer()]);
  const sufficient = await audio.gateway.makeKey({ limit: 104_970 });
  const { status, json } = await createSpeech(long, sufficient);
  expect(status).toBe(202);
  const job = async () => (await audio.gateway.get(`/v1/jobs/${json.id}`)).json;
  await waitUntil(async () => (await job()).completed_at !== null);
  expect(await job()).toMatchObject({ status: 'succeeded', cost: 104_970 });
});

test('a job beyond the rate limit is logged at no cost', async () => {
  const rejected = await withinOneMinute(async () => {
    const key = await audio.gateway.makeKey({ requests_per_minute: 1 });
    expect((await createSpeech({ ...speech, input: 7 }, key)).status).toBe(400);
    return createSpeech(speech, key);
  });
  await expectRow(rejected, 429, 'speech');
});

test('a job that the store cannot save is logged with the error that the client received', async () => {
  const { write } = audio.gateway.store.database;
  // The message that a database driver reports when it has lost its connection.
  await sql`create trigger unavailable before insert on jobs
    begin select raise(abort, 'Connection terminated unexpectedly'); end`.execute(write);
  const rejectedSpeech = await createSpeech(speech);
  const rejectedTranscription = await createTranscription(audio.gateway.keys.routing);
  await sql`drop trigger unavailable`.execute(write);
  await expectRow(rejectedSpeech, 503, 'speech');
  await expectRow(rejectedTranscription, 503, 'transcription');
});
