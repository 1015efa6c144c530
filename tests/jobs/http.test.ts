import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import { isObject } from '../../src/core/json.ts';
import { mp3File, noteSeconds, wavFile } from '../support/audio-files.ts';
import { JobServer } from '../support/job-server.ts';
import { waitUntil } from '../support/wait-until.ts';

let server: JobServer;

beforeAll(async () => {
  server = await JobServer.start();
}, 120_000);

afterAll(() => server.stop());

const speech = (change: object = {}) => ({
  model: 'test/speech',
  input: 'Sentence one. Sentence two.',
  voice: 'alloy',
  response_format: 'wav',
  ...change,
});

function form(fields: Readonly<Record<string, string | Blob | readonly string[]>>): FormData {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (value instanceof Blob) body.append(name, value);
    else if (typeof value === 'string') body.append(name, value);
    else for (const item of value) body.append(name, item);
  }
  return body;
}

const wav = (name = 'talk.wav', bytes: Uint8Array = wavFile(2)) =>
  new File([bytes.slice()], name, { type: 'audio/wav' });
const transcription = (change: Parameters<typeof form>[0] = {}) =>
  form({ model: 'test/transcription', file: wav(), ...change });

async function created(body: object = speech()): Promise<string> {
  const reply = await server.post(body);
  expect(reply.status).toBe(202);
  return String(reply.json.id);
}

const show = (id: string, key?: string) => server.send('GET', `/v1/jobs/${id}`, {}, key);

describe('jobs API', () => {
  test('returns 202 and a polling_url for a new job', async () => {
    const reply = await server.post(speech());
    expect(reply.status).toBe(202);
    expect(reply.json).toEqual({
      id: expect.stringMatching(/^job_[0-9a-z]{24}$/),
      object: 'job',
      type: 'speech',
      status: 'queued',
      model: 'test/speech',
      created_at: '2027-01-15T08:00:00.000Z',
      polling_url: `${server.url}/v1/jobs/${reply.json.id}`,
    });
    const polled = await server.send('GET', new URL(String(reply.json.polling_url)).pathname);
    expect(polled.json).toEqual({
      ...reply.json,
      progress: 0,
      started_at: null,
      completed_at: null,
      expires_at: null,
      output: null,
      error: null,
      usage: { input_characters: 0 },
      cost: 0,
      metadata: {},
    });
    await server.send('DELETE', `/v1/jobs/${reply.json.id}`);
  });

  test('counts a job as one request and sends rate limit headers', async () => {
    const before = server.counted.length;
    const reply = await server.post(speech());
    expect(reply.headers.get('x-ratelimit-limit')).toBe('600');
    await server.runJobs();
    await show(String(reply.json.id));
    expect(server.counted.length).toBe(before + 1);
  });

  test('links a finished job to one audio file that can be downloaded without a key', async () => {
    const id = await created(speech({ metadata: { order: '№ 7' } }));
    await server.runJobs();
    const { json } = await show(id);
    expect(json).toMatchObject({
      ...{ status: 'succeeded', progress: 1, error: null, cost: 52, metadata: { order: '№ 7' } },
      ...{ usage: { input_characters: 26 }, completed_at: '2027-01-15T08:00:00.000Z' },
      ...{ expires_at: '2027-01-16T08:00:00.000Z' },
      output: { content_type: 'audio/wav', url_expires_at: '2027-01-15T09:00:00.000Z' },
    });
    const output = isObject(json.output) ? json.output : {};
    const response = await fetch(String(output.url));
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('audio/wav');
    const file = await response.bytes();
    expect(file.length).toBe(Number(output.bytes));
    const { format } = await parseBuffer(file, { mimeType: 'audio/wav' }, { duration: true });
    expect(format.duration).toBeCloseTo(26 * noteSeconds, 6);
  });

  test('defaults response_format to mp3', async () => {
    server.harness.runner.synthesize = () => mp3File(2);
    const id = await created(speech({ response_format: undefined }));
    await server.runJobs();
    server.harness.runner.synthesize = ({ input }) => wavFile(input.length);
    const { status, output } = (await show(id)).json;
    expect({ status, output }).toMatchObject({ output: { content_type: 'audio/mpeg' } });
  });

  test('accepts a form with the fields before or after the file', async () => {
    for (const order of [
      ['model', 'file'],
      ['file', 'model'],
    ]) {
      const parts = { model: 'test/transcription', file: wav() };
      const body = new FormData();
      for (const name of order) body.append(name, name === 'file' ? parts.file : parts.model);
      const reply = await server.postForm(body);
      expect(reply.status).toBe(202);
      expect(reply.json).toMatchObject({ type: 'transcription', status: 'queued' });
      await server.runJobs();
      const { json } = await show(String(reply.json.id));
      expect(json).toMatchObject({ status: 'succeeded', cost: 50, usage: { seconds: 1.5 } });
      const output = isObject(json.output) ? json.output : {};
      expect(output.content_type).toBe('application/json');
      expect(await (await fetch(String(output.url))).json()).toEqual({ text: 'Heard.' });
    }
  });

  test('shows why a job failed', async () => {
    server.harness.runner.synthesize = () => Buffer.from('<html>');
    const id = await created();
    await server.runJobs();
    server.harness.runner.synthesize = ({ input }) => wavFile(input.length);
    expect((await show(id)).json).toMatchObject({
      status: 'failed',
      output: null,
      error: {
        message: "The audio can't be joined: the provider's response for piece 1 isn't WAV.",
        type: 'upstream_error',
        code: 502,
      },
    });
  });

  test('cancels a job once and rejects the cancellation of an ended job', async () => {
    const id = await created();
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => server.send('DELETE', `/v1/jobs/${id}`)),
    );
    for (const { status, json } of replies) {
      expect([status, json.status]).toEqual([200, 'cancelled']);
    }
    await server.runJobs();
    expect((await show(id)).json.status).toBe('cancelled');
    const other = await created();
    await server.runJobs();
    const late = await server.send('DELETE', `/v1/jobs/${other}`);
    expect(late.status).toBe(409);
    expect(late.error).toMatchObject({
      message: 'This job has already ended with status succeeded.',
      param: 'id',
    });
    expect((await show(other)).json.status).toBe('succeeded');
  });

  test('expires a job and its link a day after it ended', async () => {
    const id = await created();
    await server.runJobs();
    server.harness.now += 23 * 3_600_000 + 1_800_000;
    const { json } = await show(id);
    const output = isObject(json.output) ? json.output : {};
    // The output expires in half an hour, and so the link expires then.
    expect(output.url_expires_at).toBe(String(json.expires_at));
    server.harness.now += 1_800_000;
    expect((await show(id)).json).toMatchObject({ status: 'expired', output: null, progress: 1 });
    expect((await fetch(String(output.url))).status).toBe(403);
    await server.harness.sweep();
    expect(server.harness.storedObjects()).toEqual([]);
    server.harness.now -= 24 * 3_600_000;
  });

  test('lists jobs newest first, by status, and in pages', async () => {
    const before = (await server.send('GET', '/v1/jobs?status=queued')).json.data;
    expect(before).toEqual([]);
    const ids: string[] = [];
    for (let index = 0; index < 3; index += 1) {
      server.harness.now += 1;
      // The speeds include the minimum and the maximum.
      ids.unshift(await created(speech({ speed: [0.25, 1, 4][index] })));
    }
    const list = async (query: string) => {
      const { json } = await server.send('GET', `/v1/jobs?${query}`);
      const data: readonly unknown[] = Array.isArray(json.data) ? json.data : [];
      return { ids: data.map((job) => (isObject(job) ? job.id : null)), more: json.has_more };
    };
    expect(await list('status=queued')).toEqual({ ids, more: false });
    expect(await list('status=queued&limit=3')).toEqual({ ids, more: false });
    expect(await list('status=queued&limit=2')).toEqual({ ids: ids.slice(0, 2), more: true });
    expect(await list('status=queued&limit=2&offset=2')).toEqual({
      ids: ids.slice(2),
      more: false,
    });
    for (const id of ids) await server.send('DELETE', `/v1/jobs/${id}`);
    for (const status of ['running', 'succeeded', 'failed', 'cancelled', 'expired']) {
      expect((await server.send('GET', `/v1/jobs?status=${status}`)).status).toBe(200);
    }
    for (const [query, param] of [
      ['limit=0', 'limit'],
      ['limit=-1', 'limit'],
      ['limit=x', 'limit'],
      ['offset=-1', 'offset'],
      ['offset=1e9', 'offset'],
      ['status=done', 'status'],
    ]) {
      const rejected = await server.send('GET', `/v1/jobs?${query}`);
      expect([rejected.status, rejected.error.param]).toEqual([400, param]);
    }
  });
});

describe('job isolation', () => {
  test('returns 404 for a job of another tenant, as it does for an unknown job', async () => {
    const id = await created();
    const unknown = await show('job_000000000000000000000000', server.keys.otherTenant);
    expect(unknown.status).toBe(404);
    for (const method of ['GET', 'DELETE']) {
      const reply = await server.send(method, `/v1/jobs/${id}`, {}, server.keys.otherTenant);
      expect(reply.status).toBe(404);
      expect(reply.error).toEqual(unknown.error);
    }
    const list = await server.send('GET', '/v1/jobs', {}, server.keys.otherTenant);
    expect(list.json).toEqual({ object: 'list', data: [], has_more: false });
    expect((await show(id)).json.status).toBe('queued');
    await server.send('DELETE', `/v1/jobs/${id}`);
  });

  test.each(['x', 'job_', `job_${'a'.repeat(500)}`, '%00', '..%2f..%2fetc', "job_' OR '1'='1"])(
    'returns 404 for the malformed id %p without a lookup',
    async (id) => {
      // A lookup would fail on Postgres, which rejects zero bytes.
      const find = spyOn(server.harness.store.jobs.store, 'find');
      const reply = await show(encodeURI(id));
      expect([reply.status, find.mock.calls]).toEqual([404, []]);
      find.mockRestore();
    },
  );
});

describe('POST /v1/jobs', () => {
  const privateAddress = "webhook_url isn't allowed: Private address.";

  /** Returns all objects and rows. A rejected request must not add any. */
  async function contents(): Promise<string> {
    const { read } = server.harness.store.database;
    const rows = await read.selectFrom('jobs').select('id').orderBy('id').execute();
    const objects = await read.selectFrom('job_objects').select('key').orderBy('key').execute();
    return JSON.stringify([server.harness.storedObjects(), rows, objects]);
  }

  test.each<[string, object, string, string]>([
    [
      'no model',
      { model: undefined },
      'model',
      'model is required (a string from 1 to 200 characters).',
    ],
    [
      'a model that is not a string',
      { model: 7 },
      'model',
      'model must be a string from 1 to 200 characters, not 7.',
    ],
    ['no input', { input: undefined }, 'input', 'input is required (a string).'],
    ['an empty input', { input: ' \n\t' }, 'input', 'input is empty.'],
    [
      'an input of 200,001 characters',
      { input: 'a'.repeat(200_001) },
      'input',
      'input is too long: a job accepts at most 200000 characters.',
    ],
    [
      'an unpaired surrogate',
      { input: 'a\ud800b' },
      'input',
      'input contains an unpaired surrogate. Send valid Unicode.',
    ],
    [
      'no voice',
      { voice: undefined },
      'voice',
      'voice is required (a string from 1 to 200 characters or an object).',
    ],
    [
      'an unknown format',
      { response_format: 'ogg' },
      'response_format',
      'response_format must be one of "mp3", "opus", "aac", "flac", "wav", "pcm", not "ogg".',
    ],
    [
      'flac for a long text',
      { response_format: 'flac' },
      'response_format',
      'response_format flac works only for texts of up to 20 characters: longer texts are ' +
        "split into pieces, and flac pieces can't be joined. Use wav, which is also lossless.",
    ],
    ['a speed of 0.2', { speed: 0.2 }, 'speed', 'speed must be a number from 0.25 to 4, not 0.2.'],
    ['a speed of 5', { speed: 5 }, 'speed', 'speed must be a number from 0.25 to 4, not 5.'],
    ['a speed in quotes', { speed: '1' }, 'speed', 'speed must be a number, not "1".'],
    ['instructions that are too long', { instructions: 'a'.repeat(4_097) }, 'instructions', ''],
    ['a private webhook_url', { webhook_url: 'http://127.0.0.1/' }, 'webhook_url', privateAddress],
    [
      'an invalid webhook_url',
      { webhook_url: 'ftp://a' },
      'webhook_url',
      'webhook_url must be an http(s) URL of at most 2000 characters, not "ftp://a".',
    ],
    [
      'metadata that is not an object',
      { metadata: 'a' },
      'metadata',
      'metadata must be an object, not "a".',
    ],
    [
      'a metadata value that is not a string',
      { metadata: { a: 1 } },
      'metadata.a',
      'metadata.a must be a string of at most 512 characters, not 1.',
    ],
    [
      '17 entries of metadata',
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, ''])) },
      'metadata',
      'metadata can have at most 16 entries.',
    ],
    [
      'a metadata key that is too long',
      { metadata: { ['n'.repeat(65)]: '' } },
      'metadata',
      'metadata keys must have 1 to 64 characters; one has 65.',
    ],
    [
      'an empty metadata key',
      { metadata: { '': 'x' } },
      'metadata',
      'metadata keys must have 1 to 64 characters; one has 0.',
    ],
  ])('rejects %s and stores nothing', async (_, change, param, message) => {
    const before = await contents();
    const reply = await server.post(speech(change));
    expect(reply.status).toBe(400);
    expect(reply.error).toMatchObject({ type: 'invalid_request_error', param });
    if (message !== '') expect(reply.error.message).toBe(message);
    expect(await contents()).toBe(before);
  });

  test('accepts a text of the maximum length in characters, however many bytes it has', async () => {
    server.harness.speechModel = {
      limit: { unit: 'bytes', max: 1_000 },
      isStrict: true,
      voices: null,
    };
    const id = await created(speech({ input: '😀'.repeat(200_000), response_format: 'mp3' }));
    await server.send('DELETE', `/v1/jobs/${id}`);
    const reply = await server.post(speech({ input: '😀'.repeat(200_001) }));
    expect(reply.error.param).toBe('input');
    server.harness.speechModel = {
      limit: { unit: 'characters', max: 20 },
      isStrict: true,
      voices: null,
    };
  });

  test('accepts any speed for a model that ignores it', async () => {
    const strict = server.harness.speechModel;
    server.harness.speechModel = { ...strict, isStrict: false };
    const id = await created(speech({ speed: 5 }));
    await server.send('DELETE', `/v1/jobs/${id}`);
    server.harness.speechModel = strict;
  });

  test('rejects a voice that a strict model does not have', async () => {
    server.harness.speechModel = {
      limit: { unit: 'characters', max: 20 },
      isStrict: true,
      voices: ['echo', 'nova'],
    };
    const reply = await server.post(speech());
    expect(reply.error).toMatchObject({
      message: 'voice must be one of echo, nova for test/speech.',
      param: 'voice',
    });
    server.harness.speechModel = {
      limit: { unit: 'characters', max: 20 },
      isStrict: true,
      voices: null,
    };
  });

  const script = new File(['#!/bin/sh\necho hello world\n'], 'talk.mp3', { type: 'audio/mpeg' });
  const hint = 'use one of flac, mp3, mpeg, mpga, mp4, m4a, ogg, wav, webm.';
  test.each<[string, () => FormData, number, string, string]>([
    [
      'no file',
      () => form({ model: 'test/transcription' }),
      400,
      'file',
      'file is required. Send an audio recording.',
    ],
    [
      'a text field named file',
      () => form({ model: 'test/transcription', file: 'text' }),
      400,
      'file',
      'file must be a file with a filename, not text.',
    ],
    [
      'two files',
      () => {
        const body = transcription();
        body.append('file', wav());
        return body;
      },
      400,
      'file',
      'file appears twice.',
    ],
    [
      'a file under another name',
      () => form({ model: 'test/transcription', audio: wav() }),
      400,
      'audio',
      'audio must be text, not a file.',
    ],
    [
      'an empty file',
      () => transcription({ file: wav('a.wav', new Uint8Array()) }),
      400,
      'file',
      'file is empty.',
    ],
    [
      'a script with an audio extension',
      () => transcription({ file: script }),
      400,
      'file',
      `file isn't a supported audio format; ${hint}`,
    ],
    [
      'an ELF file with an audio extension',
      () =>
        transcription({
          file: wav('a.mp3', Buffer.from('\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00')),
        }),
      400,
      'file',
      `file isn't a supported audio format; ${hint}`,
    ],
    [
      'a zip file with an audio extension',
      () =>
        transcription({
          file: wav('a.wav', Buffer.from('PK\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00')),
        }),
      400,
      'file',
      `file isn't a supported audio format; ${hint}`,
    ],
    [
      'an extension that is not for audio',
      () => transcription({ file: wav('a.exe') }),
      400,
      'file',
      `file has the extension .exe; ${hint}`,
    ],
    [
      'no model',
      () => form({ file: wav() }),
      400,
      'model',
      'model is required (a string from 1 to 200 characters).',
    ],
    ['an unknown model', () => transcription({ model: 'who/knows' }), 404, '', 'Unknown model.'],
    [
      'a temperature of 2',
      () => transcription({ temperature: '2' }),
      400,
      'temperature',
      'temperature must be a number from 0 to 1, not 2.',
    ],
    [
      'a temperature that is not a number',
      () => transcription({ temperature: 'hot' }),
      400,
      'temperature',
      'temperature must be a number from 0 to 1, not "hot".',
    ],
    [
      'an invalid language',
      () => transcription({ language: 'English!' }),
      400,
      'language',
      'language must be an ISO-639-1 code such as "en", not "English!".',
    ],
    [
      'an unknown format',
      () => transcription({ response_format: 'xml' }),
      400,
      'response_format',
      'response_format must be one of "json", "text", "srt", "verbose_json", "vtt", not "xml".',
    ],
    [
      'the same field twice',
      () => transcription({ language: ['de', 'en'] }),
      400,
      'language',
      'language appears twice.',
    ],
    [
      'metadata that is not JSON',
      () => transcription({ metadata: '{a' }),
      400,
      'metadata',
      'metadata must be an object, not "{a".',
    ],
    [
      'a private webhook_url',
      () => transcription({ webhook_url: 'http://127.0.0.1/' }),
      400,
      'webhook_url',
      privateAddress,
    ],
  ])('rejects a form with %s and stores nothing', async (_, body, status, param, message) => {
    const before = await contents();
    const reply = await server.postForm(body());
    expect([reply.status, reply.error.param ?? '', reply.error.message]).toEqual([
      status,
      param,
      message,
    ]);
    expect(await contents()).toBe(before);
  });

  test('rejects other content types and malformed bodies', async () => {
    const send = (type: string, body: string) =>
      server.send('POST', '/v1/jobs', { body, headers: { 'content-type': type } });
    expect((await send('text/plain', 'hello')).status).toBe(415);
    expect((await send('application/json', '{"model":')).status).toBe(400);
    expect((await send('multipart/form-data', '--x')).status).toBe(400);
    expect((await send('multipart/form-data; boundary=x', '--x\r\n')).status).toBe(400);
  });

  test('deletes the upload when the client disconnects', async () => {
    const before = await contents();
    const parts = [
      '--XX\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n',
      Buffer.from(mp3File(20)).toString('latin1'),
    ];
    const { port, hostname } = new URL(server.url);
    const head =
      'POST /v1/jobs HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n' +
      `authorization: Bearer ${server.keys.routing}\r\n` +
      'content-type: multipart/form-data; boundary=XX\r\n\r\n';
    const socket = await Bun.connect({
      hostname,
      port: Number(port),
      socket: { data() {} },
    });
    socket.write(Buffer.from(head + parts.join(''), 'latin1'));
    const stored = server.harness.storedObjects().length;
    await waitUntil(() => server.harness.storedObjects().length !== stored);
    socket.terminate();
    await waitUntil(async () => (await contents()) === before);
  });

  test('stores files under generated names, whatever their filename', async () => {
    for (const name of [
      '../../etc/x.wav',
      '/etc/passwd.wav',
      'C:\\x.wav',
      `${'n'.repeat(9_000)}.wav`,
      '.htaccess.wav',
      '☃.wav',
    ]) {
      const reply = await server.postForm(transcription({ file: wav(name) }));
      expect(reply.status).toBe(202);
      await server.send('DELETE', `/v1/jobs/${reply.json.id}`);
    }
    for (const key of server.harness.storedObjects()) expect(key).toMatch(/^[0-9a-z]{26}\.\w+$/);
    await server.harness.sweep();
  });
});
