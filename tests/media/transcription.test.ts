/** POST /v1/audio/transcriptions: requests to providers, transcripts, and charges. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { mp3File, opusFile, wavFile } from '../support/audio-files.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import {
  answerEarly,
  delayed,
  hangBeforeHeaders,
  htmlWith200,
  json,
  replay,
  status,
  transcription,
} from '../support/fake-upstream.ts';
import { readReply } from '../support/in-process.ts';
import { readFixture } from '../support/upstream-conformance.ts';

let audio: AudioGateway;

/** A model that costs 0.006 dollars per minute and 1,000 credits per request. */
const withFee = {
  id: 'test/fee',
  name: 'Transcription with a fee',
  input_modalities: ['audio'],
  output_modalities: ['text'],
  features: ['transcription'],
  endpoints: [
    { provider: 'openai', model: 'fee-1', pricing: { minute: '0.006', request: '0.001' } },
  ],
};

beforeAll(async () => {
  audio = await AudioGateway.start([withFee]);
});
afterAll(() => audio.stop());
afterEach(() => audio.reset());

const senseVoice = 'FunAudioLLM/SenseVoiceSmall';

type FormValue = string | Uint8Array | File | undefined | string[];

const recording = wavFile(20);

function formOf(fields: Readonly<Record<string, FormValue>>): FormData {
  const form = new FormData();
  const all = { model: 'openai/stt-1', file: recording, ...fields };
  for (const [name, value] of Object.entries(all)) {
    if (value === undefined) continue;
    if (typeof value === 'string' || value instanceof File) form.append(name, value);
    else if (Array.isArray(value)) for (const item of value) form.append(name, item);
    else form.append(name, named('talk.wav', value));
  }
  return form;
}

const transcribe = (fields: Readonly<Record<string, FormValue>> = {}) =>
  audio.transcribe(formOf(fields));

const named = (name: string, bytes: Uint8Array = recording) =>
  new File([bytes as Uint8Array<ArrayBuffer>], name);

const transcriptJson = (body: object) => json(200, body);

function formAt(upstream: 'openai' | 'siliconflow', at = 0) {
  const { form } = audio[upstream].requests[at] ?? {};
  if (!form) throw new Error('The upstream received no form.');
  return form;
}

/** The fake upstream derives types from filenames, so check the raw bytes. */
const rawForm = () => Buffer.from(audio.openai.requests[0]?.raw ?? []).toString('latin1');

describe('the charge for a transcription', () => {
  test('is 0.006 dollars per minute of reported duration for stt-1', async () => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'Guten Tag', duration: 8.47 }));
    const reply = await transcribe();
    expect([reply.status, reply.json]).toEqual([200, { text: 'Guten Tag', duration: 8.47 }]);
    expect(reply.headers.get('content-type')).toBe('application/json');
    // 8.47 seconds at 100 credits.
    expect(await audio.bill(reply)).toEqual({
      credits: 847,
      provider: 'openai',
      note: null,
      estimated: false,
      status: 'success',
    });
    expect(audio.uploadsOnDisk()).toEqual([]);
  });

  test('is the same for emotion-stt-small at another provider', async () => {
    audio.siliconflow.script(senseVoice, transcriptJson({ text: '你好 😊', duration: 60.0041 }));
    const reply = await transcribe({ model: 'funaudio/emotion-stt-small' });
    expect(reply.json).toEqual({ text: '你好 😊', duration: 60.0041 });
    // 60.004 seconds are 6000.4 credits.
    expect((await audio.bill(reply)).credits).toBe(6001);
    expect(formAt('siliconflow').fields).toEqual({ model: [senseVoice] });
  });

  test('reads the duration from the usage or from a string', async () => {
    audio.openai.script('whisper-1', [
      transcription('ok', 3),
      transcriptJson({ text: 'ok', duration: '2.5' }),
      transcriptJson({ text: 'ok', model: 'whisper-1', usage: { prompt_audio_seconds: 4 } }),
    ]);
    const counted = await transcribe();
    expect(counted.json).toMatchObject({ text: 'ok', duration: 3 });
    expect((await audio.bill(counted)).credits).toBe(300);
    expect((await audio.bill(await transcribe())).credits).toBe(250);
    const mistral = await transcribe();
    expect(mistral.json).toMatchObject({ text: 'ok', duration: 4 });
    expect((await audio.bill(mistral)).credits).toBe(400);
  });

  test.each([
    ['no duration', { text: 'ok' }],
    ['a duration that is not a number', { text: 'ok', duration: 'long' }],
  ])('is 0 if the provider reports %s', async (_, body) => {
    audio.openai.script('whisper-1', transcriptJson(body));
    const bill = await audio.bill(await transcribe());
    expect([bill.credits, bill.status]).toEqual([0, 'success']);
    expect(bill.note).toBe(
      'The provider did not report the duration of the audio, so nothing is charged.',
    );
  });

  test('does not include the request fee if the provider reports no duration', async () => {
    audio.openai.script('fee-1', transcriptJson({ text: 'ok' }));
    const free = await transcribe({ model: 'test/fee' });
    expect((await audio.bill(free)).credits).toBe(0);
    audio.openai.script('fee-1', transcriptJson({ text: 'ok', duration: 1 }));
    const paid = await transcribe({ model: 'test/fee' });
    expect((await audio.bill(paid)).credits).toBe(100 + 1_000);
  });

  test('can be for a long duration of a small file, because silence takes little space', async () => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'ok', duration: 90 }));
    const reply = await transcribe({ file: named('pause.ogg', opusFile(4_500)) });
    expect(reply.json).toEqual({ text: 'ok', duration: 90 });
    expect(await audio.bill(reply)).toMatchObject({ credits: 9_000, estimated: false, note: null });
  });

  test.each([
    1e9,
    // The file has 230,444 bytes, 500 of which may be a second.
    461,
  ])('uses the duration of the file, with a note, if the provider reports %p', async (duration) => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'ok', duration }));
    const reply = await transcribe();
    const bill = await audio.bill(reply);
    // This is the duration from the file's headers. Credits were held for it.
    expect(reply.json).toEqual({ text: 'ok', duration: 4.8 });
    expect([bill.credits, bill.estimated]).toEqual([480, true]);
    expect(bill.note).toBe('The provider reported an implausible duration for this file.');
    const { units } = await audio.gateway.record(reply.requestId);
    expect(units).toEqual({ audioMs: 4_800 });
  });

  // The file has 4.8 seconds, and less than a fifth of that is too short.
  test.each([
    [0, 4.8],
    [-5, 4.8],
    [0.95, 4.8],
    [0.97, 0.97],
  ])('that reports %p seconds is charged for %p seconds', async (duration, seconds) => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'ok', duration }));
    const reply = await transcribe();
    expect(reply.json).toEqual({ text: 'ok', duration: seconds });
    const { credits, estimated } = await audio.bill(reply);
    expect([credits, estimated]).toEqual([seconds * 100, seconds !== duration]);
  });

  test('is unaffected by stream: false', async () => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'ok', duration: 1 }));
    const reply = await transcribe({ stream: 'false' });
    expect([reply.status, reply.json]).toMatchObject([200, { text: 'ok' }]);
  });

  test('is 0.001 dollars per minute for the demo', async () => {
    const reply = await transcribe({ model: 'demo/transcribe' });
    expect(reply.json).toMatchObject({ duration: 4.8 });
    expect(String(reply.json.text)).toContain(`has ${recording.length} bytes`);
    // 4.8 seconds at 0.001 dollars per minute.
    expect((await audio.bill(reply)).credits).toBe(80);
  });

  test('the demo model returns segments with all fields, which some libraries require', async () => {
    const reply = await transcribe({ model: 'demo/transcribe', response_format: 'verbose_json' });
    const { segments } = reply.json;
    if (!Array.isArray(segments)) throw new Error(`No segments: ${reply.text}`);
    expect(segments).toHaveLength(2);
    for (const segment of segments) {
      const { text, tokens, ...numbers } = segment;
      expect([typeof text, tokens]).toEqual(['string', []]);
      expect(Object.keys(numbers).toSorted()).toEqual([
        ...['avg_logprob', 'compression_ratio', 'end', 'id', 'no_speech_prob', 'seek', 'start'],
        'temperature',
      ]);
      expect(Object.values(numbers).every(Number.isFinite)).toBe(true);
    }
  });
});

describe('the request to the provider', () => {
  test('contains the unchanged file under a generated name, and all options', async () => {
    audio.openai.script('whisper-1', transcription());
    const reply = await transcribe({
      file: named('../../etc/geheim.WAV'),
      language: 'de',
      prompt: 'Tollgate, Größe',
      temperature: '0.2',
      response_format: 'verbose_json',
      'timestamp_granularities[]': ['word', 'segment'],
      include: 'logprobs',
    });
    expect(reply.status).toBe(200);
    expect(formAt('openai').fields).toEqual({
      model: ['whisper-1'],
      response_format: ['verbose_json'],
      language: ['de'],
      prompt: ['Tollgate, Größe'],
      temperature: ['0.2'],
      'timestamp_granularities[]': ['word', 'segment'],
      include: ['logprobs'],
    });
    const [file, ...more] = formAt('openai').files;
    expect(more).toEqual([]);
    expect([file?.field, file?.name]).toEqual(['file', 'audio.wav']);
    expect(rawForm()).toContain('filename="audio.wav"\r\ncontent-type: audio/wav\r\n\r\nRIFF');
    expect(rawForm()).not.toContain('geheim');
    expect(Buffer.from(file?.bytes ?? []).equals(recording)).toBe(true);
    const { headers, bodyBytes } = audio.openai.requests[0] ?? {};
    expect(headers?.['content-length']).toBe(String(bodyBytes));
  });

  test.each([
    ['the name without brackets', { timestamp_granularities: 'word' }, ['word']],
    ['JSON', { timestamp_granularities: '["word"]' }, ['word']],
    ['JSON in a list', { 'timestamp_granularities[]': '["segment","word"]' }, ['segment', 'word']],
    ['commas', { timestamp_granularities: 'word,segment' }, ['word', 'segment']],
    [
      'numbered names, as PHP sends them',
      { 'timestamp_granularities[0]': 'word', 'timestamp_granularities[1]': 'segment' },
      ['word', 'segment'],
    ],
    ['an empty field', { timestamp_granularities: '' }, undefined],
  ])('contains timestamp_granularities sent as %s', async (_, fields, sent) => {
    audio.openai.script('whisper-1', transcription());
    const reply = await transcribe({ response_format: 'verbose_json', ...fields });
    expect(reply.status).toBe(200);
    expect(formAt('openai').fields['timestamp_granularities[]']).toEqual(sent as never);
  });

  test.each([
    ['talk.mp3', mp3File(3), 'audio.mp3', 'audio/mpeg'],
    ['talk.mpga', mp3File(3), 'audio.mp3', 'audio/mpeg'],
    ['talk.ogg', opusFile(30), 'audio.ogg', 'audio/ogg'],
    ['voice.oga', opusFile(30), 'audio.ogg', 'audio/ogg'],
    ['PTT-WA0001.opus', opusFile(30), 'audio.ogg', 'audio/ogg'],
    ['talk', wavFile(1), 'audio.wav', 'audio/wav'],
    ['film.mp4', Buffer.from('\0\0\0\x18ftypmp42 and so on'), 'audio.mp4', 'audio/mp4'],
    ['talk.m4a', Buffer.from('\0\0\0\x18ftypM4A  and so on'), 'audio.m4a', 'audio/mp4'],
    ['talk.webm', Buffer.from([0x1a, 0x45, 0xdf, 0xa3, 1, 2, 3]), 'audio.webm', 'audio/webm'],
    ['film.mpeg', Buffer.from([0, 0, 1, 0xba, 0x21, 0, 1, 0, 1]), 'audio.mpeg', 'video/mpeg'],
    ['talk.flac', Buffer.from('fLaC and so on'), 'audio.flac', 'audio/flac'],
    ['wrongly.named.mp3', wavFile(1), 'audio.wav', 'audio/wav'],
  ])('has the name and type of the detected format: %s', async (name, bytes, filename, type) => {
    audio.openai.script('whisper-1', transcription());
    expect((await transcribe({ file: named(name, bytes) })).status).toBe(200);
    const [file] = formAt('openai').files;
    expect(file?.name).toBe(filename);
    expect(rawForm()).toContain(`filename="${filename}"\r\ncontent-type: ${type}\r\n\r\n`);
    expect(Buffer.from(file?.bytes ?? []).equals(bytes)).toBe(true);
  });
});

describe('response_format', () => {
  const srt = '1\n00:00:00,000 --> 00:00:03,320\nHallo\n\n';
  const vtt = 'WEBVTT\n\n00:00:00.000 --> 00:00:03.320\nHallo\n\n';
  test.each([
    ['text', 'Hallo\n', 'text/plain; charset=utf-8'],
    ['srt', srt, 'text/plain; charset=utf-8'],
    ['vtt', vtt, 'text/vtt; charset=utf-8'],
  ])('%s is forwarded unchanged and free of charge', async (format, body, type) => {
    audio.openai.script('whisper-1', replay(body, { contentType: 'text/plain' }));
    const reply = await transcribe({ response_format: format });
    expect([reply.status, reply.text]).toEqual([200, body]);
    expect(reply.headers.get('content-type')).toBe(type);
    expect(formAt('openai').fields.response_format).toEqual([format]);
    const bill = await audio.bill(reply);
    expect(bill.credits).toBe(0);
    expect(bill.note).toContain('nothing is charged');
  });

  test('verbose_json contains all fields of the provider, with the alias as model', async () => {
    const words = [{ word: 'Hallo', start: 0, end: 1.5 }];
    const segments = [{ id: 0, start: 0, end: 1.5, text: 'Hallo' }];
    const body = { language: 'german', duration: 1.5, text: 'Hallo', segments, words, extra: [1] };
    audio.openai.script('whisper-1', transcriptJson({ ...body, model: 'whisper-1' }));
    const reply = await transcribe({ response_format: 'verbose_json' });
    expect(reply.json).toEqual({ task: 'transcribe', ...body, model: 'openai/stt-1' });
    expect((await audio.bill(reply)).credits).toBe(150);
  });

  test('verbose_json returns a recorded answer unchanged', async () => {
    const recorded = readFixture('openai/transcription-verbose-words.json');
    audio.openai.script('whisper-1', replay(recorded));
    const fields = { 'timestamp_granularities[]': ['word'] };
    const reply = await transcribe({ response_format: 'verbose_json', ...fields });
    expect(reply.json).toEqual(JSON.parse(recorded));
    // 36.71 seconds at 100 credits.
    expect((await audio.bill(reply)).credits).toBe(3_671);
  });

  test('text keeps the leading space of a recorded answer', async () => {
    const { headers, body } = JSON.parse(readFixture('groq/transcription-text.json'));
    audio.openai.script('whisper-1', replay(body, { contentType: headers['content-type'] }));
    const reply = await transcribe({ response_format: 'text' });
    expect([reply.status, reply.text]).toEqual([200, ' Hello from the Versal AISDK.']);
    expect(reply.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  });

  test('text is extracted from JSON and charged if the provider has only JSON', async () => {
    audio.siliconflow.script(senseVoice, transcriptJson({ text: '你好', duration: 2 }));
    const fields = { response_format: 'text', language: 'zh', prompt: 'a', temperature: '0' };
    const reply = await transcribe({ model: 'funaudio/emotion-stt-small', ...fields });
    expect([reply.status, reply.text]).toEqual([200, '你好\n']);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('language, prompt, temperature');
    expect((await audio.bill(reply)).credits).toBe(200);
  });
});

describe('the fallback of a transcription request', () => {
  let shared: AudioGateway;
  // Start a gateway per test, because repeated failures would change the order of providers.
  beforeEach(async () => {
    shared = audio;
    audio = await AudioGateway.start();
  });
  afterEach(async () => {
    await audio.stop();
    audio = shared;
  });

  test.each([
    ['fails with 500', () => status(500)],
    ['returns an HTML page', () => htmlWith200()],
    ['returns an error with status 200', () => json(200, { error: { message: 'overloaded' } })],
    ['returns no text', () => json(200, { words: [] })],
  ])('receives the complete file if the first provider %s', async (_, failing) => {
    audio.openai.script('whisper-1', failing());
    audio.siliconflow.script(senseVoice, transcriptJson({ text: 'gehört', duration: 1 }));
    const reply = await transcribe();
    expect(reply.json).toEqual({ text: 'gehört', duration: 1 });
    expect(audio.openai.requests).toHaveLength(1);
    const [file] = formAt('siliconflow').files;
    expect(Buffer.from(file?.bytes ?? []).equals(recording)).toBe(true);
    const { credits, provider } = await audio.bill(reply);
    expect([credits, provider]).toEqual([100, 'siliconflow']);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });

  test('is not tried for subtitles if it has no timestamps', async () => {
    audio.openai.script('whisper-1', status(500));
    const reply = await transcribe({ response_format: 'srt' });
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect(reply.headers.get('content-type')).toStartWith('application/json');
    expect(audio.siliconflow.requests).toHaveLength(0);
    expect((await audio.bill(reply)).credits).toBe(0);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });
});

describe('an invalid transcription request', () => {
  const elf = Buffer.from('\x7fELF\x02\x01\x01 and so on', 'latin1');
  const emotional = 'funaudio/emotion-stt-small';
  test.each<[string, Record<string, FormValue>, string]>([
    ['no model', { model: undefined }, 'model'],
    ['two models', { model: ['openai/stt-1', 'demo/transcribe'] }, 'model'],
    ['no file', { file: undefined }, 'file'],
    ['a file field that is text', { file: 'talk.wav' }, 'file'],
    ['an empty file', { file: named('talk.wav', new Uint8Array()) }, 'file'],
    ['an unknown extension', { file: named('talk.exe') }, 'file'],
    ['a program named like audio', { file: named('talk.mp3', elf) }, 'file'],
    ['a script named like audio', { file: named('a.wav', Buffer.from('#!/bin/sh\nls')) }, 'file'],
    ['a prompt that is a file', { prompt: named('talk.wav') }, 'prompt'],
    ['an unknown format', { response_format: 'xml' }, 'response_format'],
    [
      'subtitles from a model without timestamps',
      { model: emotional, response_format: 'vtt' },
      'response_format',
    ],
    ['an invalid language', { language: 'German' }, 'language'],
    ['a prompt of 4,097 characters', { prompt: 'x'.repeat(4097) }, 'prompt'],
    ['a temperature of 1.1', { temperature: '1.1' }, 'temperature'],
    ['a temperature of -0.1', { temperature: '-0.1' }, 'temperature'],
    ['a temperature that is a word', { temperature: 'warm' }, 'temperature'],
    ['a hexadecimal temperature', { temperature: '0x1' }, 'temperature'],
    ['a temperature without digits', { temperature: '.' }, 'temperature'],
    [
      'an unknown granularity',
      { response_format: 'verbose_json', 'timestamp_granularities[]': ['day'] },
      'timestamp_granularities[0]',
    ],
    [
      'an unknown granularity in JSON',
      { response_format: 'verbose_json', timestamp_granularities: '["word", "day"]' },
      'timestamp_granularities[1]',
    ],
    [
      'granularities with response_format json',
      { timestamp_granularities: ['word'] },
      'timestamp_granularities',
    ],
    ['a stream', { stream: 'true' }, 'stream'],
  ])('is rejected: %s', async (_, fields, param) => {
    await audio.expectRejection(await transcribe(fields), 400, param);
  });

  // The same messages as in tests/jobs/http.test.ts.
  test.each<[Record<string, FormValue>, string]>([
    [{ file: undefined }, 'file is required. Send an audio recording.'],
    [{ file: 'talk.wav' }, 'file must be a file with a filename, not text.'],
    [{ audio: named('talk.wav') }, 'audio must be text, not a file.'],
    [{ language: ['de', 'en'] }, 'language appears twice.'],
  ])('has the same error message as an invalid job: %#', async (fields, message) => {
    expect((await transcribe(fields)).error.message).toBe(message);
  });

  test('is rejected: two files', async () => {
    const form = formOf({});
    form.append('file', named('second.wav'));
    await audio.expectRejection(await audio.transcribe(form), 400, 'file');
  });

  test.each([1, 3 * 1024 * 1024])('is rejected: a file %d bytes over the limit', async (excess) => {
    const large = new Uint8Array(25 * 1024 * 1024 + excess);
    large.set(recording);
    const reply = await transcribe({ file: named('talk.wav', large) });
    await audio.expectRejection(reply, 413, 'file');
    expect(reply.error.message).toContain('; send larger recordings to POST /v1/jobs.');
  });

  test('does not include a request with a file of 25 MB', async () => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'long', duration: 546.1 }));
    const large = new Uint8Array(25 * 1024 * 1024);
    large.set(recording);
    const reply = await transcribe({ file: named('talk.wav', large) });
    expect([reply.status, (await audio.bill(reply)).credits]).toEqual([200, 54_610]);
  });

  test('is rejected: JSON instead of a form, and an incomplete form', async () => {
    const path = '/v1/audio/transcriptions';
    const jsonReply = await audio.gateway.post({ model: 'openai/stt-1' }, { path });
    await audio.expectRejection(jsonReply, 415, null);
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
    const incomplete = await audio.gateway.post(`${head}RIFF....WAVE`, { path, headers });
    await audio.expectRejection(incomplete, 400, null);
  });

  test('is rejected: a model without transcription, and missing credits', async () => {
    const noTranscription = await transcribe({ model: 'openai/tts-1' });
    expect([noTranscription.status, noTranscription.error.type]).toEqual([
      400,
      'model_capability_mismatch',
    ]);
    // 4.8 seconds cost 480 credits.
    const poor = await audio.gateway.makeKey({ limit: 479 });
    const rejected = await audio.transcribe(formOf({}), poor);
    expect([rejected.status, rejected.error.type]).toEqual([402, 'insufficient_credits']);
    expect(audio.openai.requests).toHaveLength(0);
    audio.openai.script('whisper-1', transcription());
    const rich = await audio.gateway.makeKey({ limit: 480 });
    expect((await audio.transcribe(formOf({}), rich)).status).toBe(200);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });
});

describe('a transcription request', () => {
  const path = '/v1/audio/transcriptions';
  const large = () => {
    const bytes = new Uint8Array(20 * 1024 * 1024);
    bytes.set(recording);
    return bytes;
  };

  test('is canceled upstream if the client disconnects', async () => {
    audio.openai.script('whisper-1', hangBeforeHeaders());
    const client = new AbortController();
    const { url, keys } = audio.gateway;
    const headers = { authorization: `Bearer ${keys.routing}` };
    const init = { method: 'POST', headers, body: formOf({ file: large() }) };
    const result = fetch(url + path, { ...init, signal: client.signal }).catch(() => 'aborted');
    await audio.openai.until((requests) => requests.find(({ bodyAt }) => bodyAt !== null));
    client.abort();
    expect(await result).toBe('aborted');
    const canceled = await audio.openai.until((requests) =>
      requests.find((e) => e.outcome === 'client-disconnected'),
    );
    expect(canceled.bodyBytes).toBeGreaterThan(20 * 1024 * 1024);
    expect(audio.uploadsOnDisk()).toEqual([]);
    audio.openai.script('whisper-1', transcription());
    expect((await transcribe()).status).toBe(200);
  });

  test('returns the error of a provider that answers before it has read the file', async () => {
    audio.openai.script('/v1/audio/transcriptions', answerEarly(status(400, 'Not this one')));
    const reply = await transcribe({ file: large() });
    expect([reply.status, (await audio.bill(reply)).credits]).toEqual([400, 0]);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });

  test('is replayed for requests with the same Idempotency-Key', async () => {
    audio.openai.script('whisper-1', transcriptJson({ text: 'once', duration: 1 }));
    const { url, keys } = audio.gateway;
    const headers = { authorization: `Bearer ${keys.routing}`, 'idempotency-key': 'a-recording' };
    const send = async (file: Uint8Array) => {
      const body = formOf({ file, response_format: 'verbose_json' });
      return readReply(await fetch(url + path, { method: 'POST', headers, body }));
    };
    const balance = await audio.gateway.balance();
    const [first, again] = [await send(recording), await send(recording)];
    expect([again.status, again.text]).toEqual([200, first.text]);
    expect(again.headers.get('content-type')).toBe('application/json');
    expect(audio.openai.requests).toHaveLength(1);
    expect([again.requestId, (await audio.bill(again)).credits]).toEqual([first.requestId, 100]);
    expect(balance - (await audio.gateway.balance())).toBe(100);
    // A different file is a different request.
    expect((await send(wavFile(21))).status).toBe(409);
  });

  test('may take longer for a long recording', async () => {
    const gatewayWithTimeout = await AudioGateway.start([], { timeout_ms: 300 });
    const late = delayed(900, transcriptJson({ text: 'at last', duration: 1 }));
    gatewayWithTimeout.openai.script('whisper-1', late);
    gatewayWithTimeout.siliconflow.script(senseVoice, late);
    // The timeout is at least a tenth of the recording: 9.6 seconds for a recording of 96 seconds.
    // For a recording of 0.96 seconds, it remains 300 ms.
    const long = await gatewayWithTimeout.transcribe(formOf({ file: wavFile(400) }));
    expect([long.status, long.json.text]).toEqual([200, 'at last']);
    gatewayWithTimeout.openai.script('whisper-1', hangBeforeHeaders());
    gatewayWithTimeout.siliconflow.script(senseVoice, hangBeforeHeaders());
    const short = await gatewayWithTimeout.transcribe(formOf({ file: wavFile(4) }));
    expect([short.status, short.error.type]).toEqual([504, 'upstream_error']);
    await gatewayWithTimeout.stop();
  });
});
