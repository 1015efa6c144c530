/** Compares the responses of every route with /openapi.json, for each status and content type. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { wavFile } from '../support/audio-files.ts';
import { CheckedGateway } from '../support/checked-gateway.ts';
import {
  type Behavior,
  chatAnswer,
  gated,
  hangBeforeHeaders,
  images,
  replay,
  speech,
  transcription,
  words,
} from '../support/fake-upstream.ts';
import { opaquePng } from '../support/images.ts';
import { object } from '../support/openapi-checker.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Enough time for a job, which doesn't start until the worker polls the queue. */
const jobTestMs = 120_000;

let checked: CheckedGateway;

beforeAll(async () => {
  checked = await CheckedGateway.start();
});
afterAll(() => checked.stop());

const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello!' }] };

/** Reads a path without parameters. Such a path is the same in the document. */
const read = (path: string, key?: string) =>
  checked.sendOk(`GET ${path}`, path, key ? { key } : {});

function form(fields: Readonly<Record<string, string | Uint8Array>>): FormData {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') body.append(name, value);
    else body.append(name, new File([value as Uint8Array<ArrayBuffer>], 'a file'));
  }
  return body;
}

describe('answers match /openapi.json', () => {
  test('for chat completions, streams, and their logs', async () => {
    const path = '/v1/chat/completions';
    checked.upstream.script('chat', chatAnswer(words(3)));
    const completion = await checked.sendOk(`POST ${path}`, path, { body: chat });
    const body = { ...chat, stream: true, stream_options: { include_usage: true } };
    const streamed = await checked.sendOk(`POST ${path}`, path, { body });
    expect(streamed.text).toContain('w3');
    const id = completion.headers.get('x-request-id') ?? '';
    await checked.sendOk('GET /v1/generation', `/v1/generation?id=${id}`);
    const explain = '/v1/route/explain';
    await checked.sendOk(`POST ${explain}`, explain, { body: chat });
    await checked.sendOk('GET /v1/customer/logs/{id}', `/v1/customer/logs/${id}`);
    const operator = { key: checked.gateway.keys.admin };
    await checked.sendOk('GET /admin/v1/requests/{id}', `/admin/v1/requests/${id}`, operator);
  });

  const messagePaths = ['/v1/messages', '/v1/anthropic/messages'];
  test.each(messagePaths)('for POST %s, with and without streaming', async (path) => {
    checked.upstream.script('chat', chatAnswer(words(3)));
    const body = { ...chat, max_tokens: 10 };
    const { json } = await checked.sendOk(`POST ${path}`, path, { body });
    expect(json.content).toEqual([expect.objectContaining({ type: 'text', text: 'w1 w2 w3' })]);
    const { text } = await checked.sendOk(`POST ${path}`, path, {
      body: { ...body, stream: true },
    });
    expect(text).toContain('message_stop');
    const { json: counted } = await checked.sendOk(
      `POST ${path}/count_tokens`,
      `${path}/count_tokens`,
      {
        body: chat,
      },
    );
    expect(counted.input_tokens).toBeGreaterThan(0);
  });

  test('for POST /v1/responses, with and without streaming', async () => {
    const path = '/v1/responses';
    checked.upstream.script('chat', chatAnswer(words(3)));
    const body = { model: 'test/chat', input: 'Hello!' };
    const { json } = await checked.sendOk(`POST ${path}`, path, { body });
    expect(json.output).toEqual([expect.objectContaining({ type: 'message' })]);
    const { text } = await checked.sendOk(`POST ${path}`, path, {
      body: { ...body, stream: true },
    });
    expect(text).toContain('response.completed');
  });

  test.each(['float', 'base64'])('for embeddings as %s', async (format) => {
    const body = { model: 'test/embed', input: ['one', 'two'], encoding_format: format };
    const { json } = await checked.sendOk('POST /v1/embeddings', '/v1/embeddings', { body });
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
  ])('for speech as %s', async (format, type) => {
    checked.upstream.script('voice', speech({ contentType: type }));
    const body = { model: 'test/voice', input: 'Hi', voice: 'alloy', response_format: format };
    const { headers } = await checked.sendOk('POST /v1/audio/speech', '/v1/audio/speech', { body });
    expect(headers.get('content-type')).toBe(type);
  });

  /** Returns an upstream answer in this format, because the fake upstream makes no subtitles. */
  function transcript(format: string): Behavior {
    const subtitles = '1\n00:00:00,000 --> 00:00:01,000\nhello\n';
    const text = { srt: subtitles, vtt: `WEBVTT\n\n${subtitles.replaceAll(',', '.')}` }[format];
    const plain = { contentType: 'text/plain; charset=utf-8' };
    return text ? replay(text, plain) : transcription('hello', 2);
  }

  test.each(['json', 'verbose_json', 'text', 'srt', 'vtt'])(
    'for transcripts as %s',
    async (format) => {
      checked.upstream.script('ears', transcript(format));
      const body = form({ model: 'test/ears', file: wavFile(2), response_format: format });
      const path = '/v1/audio/transcriptions';
      expect((await checked.sendOk(`POST ${path}`, path, { body })).text).toContain('hello');
    },
  );

  test('for generated and edited images', async () => {
    checked.upstream.script('image', images());
    const body = { model: 'test/image', prompt: 'A lighthouse' };
    await checked.sendOk('POST /v1/images/generations', '/v1/images/generations', { body });
    const edit = form({ ...body, image: opaquePng(4, 3) });
    const { json } = await checked.sendOk('POST /v1/images/edits', '/v1/images/edits', {
      body: edit,
    });
    expect(json.data).toHaveLength(1);
  });

  /** Polls until the job has this status. */
  function pollUntil(status: string, id: unknown) {
    return waitUntil(async () => {
      const { json } = await checked.sendOk('GET /v1/jobs/{id}', `/v1/jobs/${id}`);
      if (json.status === 'failed') throw new Error(JSON.stringify(json.error));
      return json.status === status && json;
    });
  }

  test(
    'for a speech job and its output, complete and as a range',
    async () => {
      checked.upstream.script('voice', speech({ contentType: 'audio/mpeg' }));
      const input = { model: 'test/voice', input: 'A long text.', voice: 'alloy' };
      const created = await checked.sendOk('POST /v1/jobs', '/v1/jobs', { body: input });
      const { output } = await pollUntil('succeeded', created.json.id);
      const { pathname, search } = new URL(String(object(output).url));
      const download = (headers: Record<string, string>) =>
        checked.send('GET /v1/objects/{key}', pathname + search, { key: null, headers });
      expect((await download({})).status).toBe(200);
      expect((await download({ range: 'bytes=0-9' })).status).toBe(206);
      expect((await download({ range: 'bytes=999999999-' })).status).toBe(416);
      await checked.sendOk('GET /v1/jobs', '/v1/jobs?limit=5&status=succeeded');
      const rejected = await checked.send('DELETE /v1/jobs/{id}', `/v1/jobs/${created.json.id}`);
      expect(rejected.status).toBe(409);
    },
    jobTestMs,
  );

  test.each(['json', 'text', 'vtt'])(
    'for a transcription job as %s',
    async (format) => {
      checked.upstream.script('ears', transcript(format));
      const body = form({ model: 'test/ears', file: wavFile(2), response_format: format });
      const created = await checked.sendOk('POST /v1/jobs', '/v1/jobs', { body });
      const { output } = await pollUntil('succeeded', created.json.id);
      const { pathname, search } = new URL(String(object(output).url));
      const { text } = await checked.sendOk('GET /v1/objects/{key}', pathname + search, {
        key: null,
      });
      expect(text).toContain('hello');
      const headers = { range: 'bytes=0-3' };
      await checked.sendOk('GET /v1/objects/{key}', pathname + search, { key: null, headers });
    },
    jobTestMs,
  );

  test(
    'for a job that is canceled while its provider is processing it',
    async () => {
      checked.upstream.script('voice', hangBeforeHeaders());
      const body = { model: 'test/voice', input: 'A canceled text.', voice: 'alloy' };
      const { json } = await checked.sendOk('POST /v1/jobs', '/v1/jobs', { body });
      const name = 'DELETE /v1/jobs/{id}';
      await checked.sendOk(name, `/v1/jobs/${json.id}`);
      expect(await pollUntil('cancelled', json.id)).toMatchObject({ output: null, cost: 0 });
    },
    jobTestMs,
  );

  test('for all reads of a tenant', async () => {
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
    await checked.sendOk('GET /v1/models/{id}', '/v1/models/test/chat');
    const headers = { 'anthropic-version': '2023-06-01' };
    await checked.sendOk('GET /v1/models', '/v1/models', { headers });
    for (const groupBy of ['model', 'provider', 'api_key_id', 'traffic_mode']) {
      const path = `/v1/customer/analytics?group_by=${groupBy}`;
      await checked.sendOk('GET /v1/customer/analytics', path);
    }
    await read('/api/v1/credits', checked.gateway.keys.management);
    await read('/api/v1/webhook-secret', checked.gateway.keys.management);
    const rotation = '/api/v1/webhook-secret/rotate';
    const { management } = checked.gateway.keys;
    await checked.sendOk(`POST ${rotation}`, rotation, { key: management, body: {} });
  });

  test('for key, credential, and skill management', async () => {
    const { management: key } = checked.gateway.keys;
    const body = { name: 'one', limit: 10, limit_reset: 'daily' };
    const created = await checked.sendOk('POST /api/v1/keys', '/api/v1/keys', { key, body });
    const one = `/api/v1/keys/${object(created.json.data).id}`;
    await checked.sendOk('GET /api/v1/keys', '/api/v1/keys?include_disabled=true&offset=0', {
      key,
    });
    await checked.sendOk('GET /api/v1/keys/{id}', one, { key });
    await checked.sendOk('PATCH /api/v1/keys/{id}', one, { key, body: { name: 'two' } });
    await checked.sendOk('POST /api/v1/keys/{id}/rotate', `${one}/rotate`, { key, body: {} });
    await checked.sendOk('DELETE /api/v1/keys/{id}', one, { key });
    const byokPath = '/api/v1/byok/fake';
    const credential = { api_key: 'sk-own-0123456789' };
    await checked.sendOk('PUT /api/v1/byok/{provider}', byokPath, { key, body: credential });
    await checked.sendOk('GET /api/v1/byok/{provider}', byokPath, { key });
    await read('/api/v1/byok', key);
    await checked.sendOk('DELETE /api/v1/byok/{provider}', byokPath, { key });
    const [skill, named] = ['/v1/customer/skills/tone', '/v1/customer/skills/{name}'];
    const text = { description: 'Our tone', instructions: 'Be brief.' };
    await checked.sendOk(`PUT ${named}`, skill, { key, body: text });
    await checked.sendOk(`GET ${named}`, skill, { key });
    await checked.sendOk(`DELETE ${named}`, skill, { key });
  });

  test('for the admin endpoints', async () => {
    const { admin: key } = checked.gateway.keys;
    const tenants = '/admin/v1/tenants';
    await checked.sendOk(`POST ${tenants}`, tenants, { key, body: { id: 'acme', name: 'Acme' } });
    await read(tenants, key);
    const [one, named] = [`${tenants}/acme`, `${tenants}/{id}`];
    await checked.sendOk(`GET ${named}`, one, { key });
    await checked.sendOk(`PATCH ${named}`, one, { key, body: { requests_per_minute: 5 } });
    const grant = { key, body: { amount: 5, idempotency_key: 'a' } };
    const granted = () => checked.sendOk(`POST ${named}/credits`, `${one}/credits`, grant);
    expect([(await granted()).status, (await granted()).status]).toEqual([201, 200]);
    await checked.sendOk(`GET ${named}/credits`, `${one}/credits`, { key });
    const keys = `${one}/keys`;
    const created = await checked.sendOk(`POST ${named}/keys`, keys, { key, body: { name: 'a' } });
    await checked.sendOk(`GET ${named}/keys`, keys, { key });
    const [first, namedKey] = [`${keys}/${object(created.json.data).id}`, `${named}/keys/{key_id}`];
    await checked.sendOk(`GET ${namedKey}`, first, { key });
    await checked.sendOk(`PATCH ${namedKey}`, first, { key, body: { disabled: true } });
    await checked.sendOk(`POST ${namedKey}/rotate`, `${first}/rotate`, { key, body: {} });
    await checked.sendOk(`DELETE ${namedKey}`, first, { key });
    const explain = '/admin/v1/route/explain';
    await checked.sendOk(`POST ${explain}`, explain, { key, body: chat });
    await sendConfigObjects(key);
    const reads = ['overview', 'providers', 'accounting', 'audit', 'audit/export.csv'];
    for (const path of reads.map((name) => `/admin/v1/${name}`)) {
      await read(path, key);
    }
  });

  async function sendConfigObjects(key: string): Promise<void> {
    const provider = { dialect: 'openai', base_url: checked.upstream.url, api_key: 'sk-own' };
    const endpoint = { provider: 'own', model: 'a', pricing: { prompt: '1', completion: '1' } };
    const model = { name: 'A', input_modalities: ['text'], output_modalities: ['text'] };
    const priced = 'own/a@own@2099-01-01T00:00:00Z';
    for (const [list, name, body, change] of [
      ['providers', 'own', provider, { timeout_ms: 1000 }],
      ['models', 'own/a', { ...model, endpoints: [endpoint] }, { name: 'B' }],
      ['aliases', 'fast', { models: ['own/a'] }, { description: 'Ours' }],
      ['settings', 'cache.mode', { value: 'off' }, { value: 'auto' }],
      ['plans', 'pro', { factor_basis_points: 12_000 }, { surcharge: { request: '0.1' } }],
      ['prices', priced, { pricing: endpoint.pricing }, { pricing: { prompt: '2' } }],
    ] as const) {
      const [one, named] = [`/admin/v1/${list}/${name}`, `/admin/v1/${list}/{name}`];
      const put = () => checked.sendOk(`PUT ${named}`, one, { key, body });
      expect([(await put()).status, (await put()).status]).toEqual([201, 200]);
      await checked.sendOk(`PATCH ${named}`, one, { key, body: change });
      await checked.sendOk(`GET ${named}`, one, { key });
      await read(`/admin/v1/${list}`, key);
    }
    const from = '2099-02-01T00:00:00Z';
    const price = { model: 'own/a', provider: 'own', from, pricing: endpoint.pricing };
    await checked.sendOk('POST /admin/v1/prices', '/admin/v1/prices', { key, body: price });
    const [test, named] = ['/admin/v1/providers/own/test', '/admin/v1/providers/{name}/test'];
    await checked.sendOk(`POST ${named}`, test, { key });
    const rotate = { key, body: { api_key: 'sk-new' } };
    await checked.sendOk(
      'POST /admin/v1/providers/{name}/rotate',
      '/admin/v1/providers/own/rotate',
      rotate,
    );
    const listed = '/admin/v1/audit';
    const { json } = await checked.sendOk(`GET ${listed}`, `${listed}?target=fast`, { key });
    const [, created] = json.data as { id: number }[];
    const restore = `/admin/v1/audit/${created?.id}/restore`;
    await checked.sendOk('POST /admin/v1/audit/{id}/restore', restore, { key });
    for (const [list, name] of [
      ['aliases', 'fast'],
      ['prices', priced],
      ['prices', `own/a@own@${from}`],
      ['plans', 'pro'],
      ['models', 'own/a'],
      ['providers', 'own'],
      ['settings', 'cache.mode'],
    ] as const) {
      const path = `/admin/v1/${list}/${name}`;
      await checked.sendOk(`DELETE /admin/v1/${list}/{name}`, path, { key });
    }
  }

  test('for public endpoints', async () => {
    for (const path of ['/', '/api/hello', '/healthz', '/readyz', '/metrics', '/openapi.json']) {
      await read(path);
    }
    await read('/docs');
    const { text } = await read('/dashboard');
    const files = [...text.matchAll(/"(\/dashboard\/[^"]+)"/g)].map(([, path = '']) => path);
    for (const path of ['/dashboard/logs', ...files])
      await checked.sendOk('GET /dashboard/{path}', path);
  });

  test('for requests during a shutdown', async () => {
    const other = await CheckedGateway.start();
    other.upstream.script('chat', gated('gate', 3, chatAnswer(words(9))));
    const running = other.gateway.fetch({ ...chat, stream: true });
    await running;
    const stopped = other.stop();
    const { json } = await checked.api.check(
      'GET /readyz',
      await fetch(`${other.gateway.url}/readyz`),
    );
    expect(json.status).toBe('unavailable');
    const { status } = await other.send('GET /v1/key', '/v1/key');
    expect(status).toBe(503);
    other.upstream.open('gate');
    await (await running).text();
    await stopped;
  });

  test('for every documented status and content type except errors', () => {
    const isSuccess = (answer: string) => !answer.includes(' default ');
    const missing = checked.api
      .documentedAnswers()
      .filter((answer) => isSuccess(answer) && !checked.api.checkedAnswers.has(answer));
    expect(missing).toEqual([]);
  });
});
