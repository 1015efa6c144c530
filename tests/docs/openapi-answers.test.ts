/** Every route answers as /openapi.json says: each status and each content type was really seen. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { wavFile } from '../support/audio-files.ts';
import { object } from '../support/openapi-checker.ts';
import { CheckedGateway } from '../support/checked-gateway.ts';
import {
  type Behavior,
  gated,
  hangBeforeHeaders,
  images,
  replay,
  chatAnswer,
  speech,
  transcription,
  words,
} from '../support/fake-upstream.ts';
import { opaquePng } from '../support/images.ts';

/** A job waits for the worker's next look at the queue. */
const patienceMs = 120_000;

let rig: CheckedGateway;

beforeAll(async () => {
  rig = await CheckedGateway.start();
});
afterAll(() => rig.stop());

const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello!' }] };

/** A path that is asked for as it stands in the document. */
const read = (path: string, key?: string) => rig.sendOk(`GET ${path}`, path, key ? { key } : {});

function form(fields: Readonly<Record<string, string | Uint8Array>>): FormData {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') body.append(name, value);
    else body.append(name, new File([value as Uint8Array<ArrayBuffer>], 'a file'));
  }
  return body;
}

test('a chat, whole and streamed, and what remains of it', async () => {
  const path = '/v1/chat/completions';
  rig.upstream.script('chat', chatAnswer(words(3)));
  const answered = await rig.sendOk(`POST ${path}`, path, { body: chat });
  const body = { ...chat, stream: true, stream_options: { include_usage: true } };
  const streamed = await rig.sendOk(`POST ${path}`, path, { body });
  expect(streamed.text).toContain('w3');
  const id = answered.headers.get('x-request-id') ?? '';
  await rig.sendOk('GET /v1/generation', `/v1/generation?id=${id}`);
  await rig.sendOk('GET /v1/customer/logs/{id}', `/v1/customer/logs/${id}`);
});

const messagePaths = ['/v1/messages', '/v1/anthropic/messages'];
test.each(messagePaths)('a message at %s, whole and streamed', async (path) => {
  rig.upstream.script('chat', chatAnswer(words(3)));
  const body = { ...chat, max_tokens: 10 };
  const { json } = await rig.sendOk(`POST ${path}`, path, { body });
  expect(json.content).toEqual([expect.objectContaining({ type: 'text', text: 'w1 w2 w3' })]);
  const { text } = await rig.sendOk(`POST ${path}`, path, { body: { ...body, stream: true } });
  expect(text).toContain('message_stop');
  const { json: counted } = await rig.sendOk(`POST ${path}/count_tokens`, `${path}/count_tokens`, {
    body: chat,
  });
  expect(counted.input_tokens).toBeGreaterThan(0);
});

test('a response, whole and streamed', async () => {
  const path = '/v1/responses';
  rig.upstream.script('chat', chatAnswer(words(3)));
  const body = { model: 'test/chat', input: 'Hello!' };
  const { json } = await rig.sendOk(`POST ${path}`, path, { body });
  expect(json.output).toEqual([expect.objectContaining({ type: 'message' })]);
  const { text } = await rig.sendOk(`POST ${path}`, path, { body: { ...body, stream: true } });
  expect(text).toContain('response.completed');
});

test.each(['float', 'base64'])('embeddings as %s', async (format) => {
  const body = { model: 'test/embed', input: ['one', 'two'], encoding_format: format };
  const { json } = await rig.sendOk('POST /v1/embeddings', '/v1/embeddings', { body });
  const [first] = (json.data as { embedding: unknown }[]).map(({ embedding }) => embedding);
  expect(typeof first).toBe(format === 'float' ? 'object' : 'string');
});

test.each([
  ['mp3', 'audio/mpeg'],
  ['opus', 'audio/ogg'],
  ['aac', 'audio/aac'],
  ['flac', 'audio/flac'],
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
])('speech as %s', async (format, type) => {
  rig.upstream.script('voice', speech({ contentType: type }));
  const body = { model: 'test/voice', input: 'Hi', voice: 'alloy', response_format: format };
  const { headers } = await rig.sendOk('POST /v1/audio/speech', '/v1/audio/speech', { body });
  expect(headers.get('content-type')).toBe(type);
});

/** What the upstream answers for the format; of subtitles the fake knows nothing. */
function heard(format: string): Behavior {
  const said = '1\n00:00:00,000 --> 00:00:01,000\nhello\n';
  const told = { srt: said, vtt: `WEBVTT\n\n${said.replaceAll(',', '.')}` }[format];
  const plain = { contentType: 'text/plain; charset=utf-8' };
  return told ? replay(told, plain) : transcription('hello', 2);
}

test.each(['json', 'verbose_json', 'text', 'srt', 'vtt'])('a transcript as %s', async (format) => {
  rig.upstream.script('ears', heard(format));
  const body = form({ model: 'test/ears', file: wavFile(2), response_format: format });
  const path = '/v1/audio/transcriptions';
  expect((await rig.sendOk(`POST ${path}`, path, { body })).text).toContain('hello');
});

test('images from words, and edited', async () => {
  rig.upstream.script('image', images());
  const wish = { model: 'test/image', prompt: 'A lighthouse' };
  await rig.sendOk('POST /v1/images/generations', '/v1/images/generations', { body: wish });
  const body = form({ ...wish, image: opaquePng(4, 3) });
  const { json } = await rig.sendOk('POST /v1/images/edits', '/v1/images/edits', { body });
  expect(json.data).toHaveLength(1);
});

/** Polls, as clients do, until the job is as expected. */
async function untilJobIs(status: string, id: unknown) {
  for (;;) {
    const { json } = await rig.sendOk('GET /v1/jobs/{id}', `/v1/jobs/${id}`);
    if (json.status === status) return json;
    if (json.status === 'failed') throw new Error(JSON.stringify(json.error));
    await Bun.sleep(20);
  }
}

test(
  'a job of speech, and its output in whole and in part',
  async () => {
    rig.upstream.script('voice', speech({ contentType: 'audio/mpeg' }));
    const input = { model: 'test/voice', input: 'A long text.', voice: 'alloy' };
    const made = await rig.sendOk('POST /v1/jobs', '/v1/jobs', { body: input });
    const { output } = await untilJobIs('succeeded', made.json.id);
    const { pathname, search } = new URL(String(object(output).url));
    const fetched = (headers: Record<string, string>) =>
      rig.send('GET /v1/objects/{key}', pathname + search, { key: null, headers });
    expect((await fetched({})).status).toBe(200);
    expect((await fetched({ range: 'bytes=0-9' })).status).toBe(206);
    expect((await fetched({ range: 'bytes=999999999-' })).status).toBe(416);
    await rig.sendOk('GET /v1/jobs', '/v1/jobs?limit=5&status=succeeded');
    const refused = await rig.send('DELETE /v1/jobs/{id}', `/v1/jobs/${made.json.id}`);
    expect(refused.status).toBe(409);
  },
  patienceMs,
);

test.each(['json', 'text', 'vtt'])(
  'a job that writes a recording down as %s',
  async (format) => {
    rig.upstream.script('ears', heard(format));
    const body = form({ model: 'test/ears', file: wavFile(2), response_format: format });
    const made = await rig.sendOk('POST /v1/jobs', '/v1/jobs', { body });
    const { output } = await untilJobIs('succeeded', made.json.id);
    const { pathname, search } = new URL(String(object(output).url));
    const { text } = await rig.sendOk('GET /v1/objects/{key}', pathname + search, { key: null });
    expect(text).toContain('hello');
    const headers = { range: 'bytes=0-3' };
    await rig.sendOk('GET /v1/objects/{key}', pathname + search, { key: null, headers });
  },
  patienceMs,
);

test(
  'a job that is cancelled while its provider thinks',
  async () => {
    rig.upstream.script('voice', hangBeforeHeaders());
    const body = { model: 'test/voice', input: 'Never spoken.', voice: 'alloy' };
    const { json } = await rig.sendOk('POST /v1/jobs', '/v1/jobs', { body });
    const name = 'DELETE /v1/jobs/{id}';
    await rig.sendOk(name, `/v1/jobs/${json.id}`);
    expect(await untilJobIs('cancelled', json.id)).toMatchObject({ output: null, cost: 0 });
  },
  patienceMs,
);

test('all that a tenant reads is answered as described', async () => {
  for (const path of [
    '/v1/models',
    '/v1/key',
    '/v1/customer/logs',
    '/v1/customer/logs/export.csv',
    '/v1/customer/analytics',
    '/v1/customer/analytics/export.csv',
    '/v1/customer/billing/usage-statement.csv',
    '/v1/customer/billing/statements',
    '/v1/customer/credits',
    '/v1/customer/models',
    '/v1/customer/skills',
  ]) {
    await read(path);
  }
  await rig.sendOk('GET /v1/models/{id}', '/v1/models/test/chat');
  const headers = { 'anthropic-version': '2023-06-01' };
  await rig.sendOk('GET /v1/models', '/v1/models', { headers });
  for (const split of ['model', 'provider', 'api_key_id', 'traffic_mode']) {
    const path = `/v1/customer/analytics?group_by=${split}`;
    await rig.sendOk('GET /v1/customer/analytics', path);
  }
  await read('/api/v1/credits', rig.gateway.keys.management);
  await read('/api/v1/webhook-secret', rig.gateway.keys.management);
});

test('all that a manager does is answered as described', async () => {
  const { management: key } = rig.gateway.keys;
  const body = { name: 'one', limit: 10, limit_reset: 'daily' };
  const made = await rig.sendOk('POST /api/v1/keys', '/api/v1/keys', { key, body });
  const one = `/api/v1/keys/${object(made.json.data).id}`;
  await rig.sendOk('GET /api/v1/keys', '/api/v1/keys?include_disabled=true&offset=0', { key });
  await rig.sendOk('GET /api/v1/keys/{id}', one, { key });
  await rig.sendOk('PATCH /api/v1/keys/{id}', one, { key, body: { name: 'two' } });
  await rig.sendOk('POST /api/v1/keys/{id}/rotate', `${one}/rotate`, { key, body: {} });
  await rig.sendOk('DELETE /api/v1/keys/{id}', one, { key });
  const own = '/api/v1/byok/fake';
  const theirs = { api_key: 'sk-own-0123456789' };
  await rig.sendOk('PUT /api/v1/byok/{provider}', own, { key, body: theirs });
  await rig.sendOk('GET /api/v1/byok/{provider}', own, { key });
  await read('/api/v1/byok', key);
  await rig.sendOk('DELETE /api/v1/byok/{provider}', own, { key });
  const [skill, named] = ['/v1/customer/skills/tone', '/v1/customer/skills/{name}'];
  const text = { description: 'Our tone', instructions: 'Be brief.' };
  await rig.sendOk(`PUT ${named}`, skill, { key, body: text });
  await rig.sendOk(`GET ${named}`, skill, { key });
  await rig.sendOk(`DELETE ${named}`, skill, { key });
});

test('all that an operator does is answered as described', async () => {
  const { admin: key } = rig.gateway.keys;
  const tenants = '/admin/v1/tenants';
  await rig.sendOk(`POST ${tenants}`, tenants, { key, body: { id: 'acme', name: 'Acme' } });
  await read(tenants, key);
  const [one, named] = [`${tenants}/acme`, `${tenants}/{id}`];
  await rig.sendOk(`GET ${named}`, one, { key });
  await rig.sendOk(`PATCH ${named}`, one, { key, body: { requests_per_minute: 5 } });
  const grant = { key, body: { amount: 5, idempotency_key: 'a' } };
  const granted = () => rig.sendOk(`POST ${named}/credits`, `${one}/credits`, grant);
  expect([(await granted()).status, (await granted()).status]).toEqual([201, 200]);
  await rig.sendOk(`GET ${named}/credits`, `${one}/credits`, { key });
  await rig.sendOk(`POST ${named}/keys`, `${one}/keys`, { key, body: { name: 'first' } });
  for (const path of ['/admin/v1/overview', '/admin/v1/providers', '/admin/v1/accounting']) {
    await read(path, key);
  }
});

test('all that needs no key is answered as described', async () => {
  for (const path of ['/', '/api/hello', '/healthz', '/readyz', '/metrics', '/openapi.json']) {
    await read(path);
  }
  await read('/docs');
  const { text } = await read('/dashboard');
  const files = [...text.matchAll(/"(\/dashboard\/[^"]+)"/g)].map(([, path = '']) => path);
  for (const path of ['/dashboard/logs', ...files]) await rig.sendOk('GET /dashboard/{path}', path);
});

test('requests during a shutdown are answered as described', async () => {
  const other = await CheckedGateway.start();
  other.upstream.script('chat', gated('held', 3, chatAnswer(words(9))));
  const running = other.gateway.fetch({ ...chat, stream: true });
  await running;
  const stopped = other.stop();
  const { json } = await rig.api.check('GET /readyz', await fetch(`${other.gateway.url}/readyz`));
  expect(json.status).toBe('unavailable');
  const { status } = await other.send('GET /v1/key', '/v1/key');
  expect(status).toBe(503);
  other.upstream.open('held');
  await (await running).text();
  await stopped;
});

test('every status and type that is described was seen; these were not', () => {
  const isGood = (promise: string) => !promise.includes(' default ');
  const missing = rig.api.documentedAnswers().filter((one) => isGood(one) && !rig.api.checkedAnswers.has(one));
  expect(missing).toEqual([]);
});
