/** POST /v1/audio/transcriptions: what is heard, what providers get, what it costs. */
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

/** At the usual price, and a thousand credits for each request. */
const withFee = {
  id: 'test/fee',
  name: 'Ears with a fee',
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

type Value = string | Uint8Array | File | undefined | string[];

const recording = wavFile(20);

function formOf(wishes: Readonly<Record<string, Value>>): FormData {
  const form = new FormData();
  const all = { model: 'openai/stt-1', file: recording, ...wishes };
  for (const [name, value] of Object.entries(all)) {
    if (value === undefined) continue;
    if (typeof value === 'string' || value instanceof File) form.append(name, value);
    else if (Array.isArray(value)) for (const one of value) form.append(name, one);
    else form.append(name, named('talk.wav', value));
  }
  return form;
}

const transcribe = (wishes: Readonly<Record<string, Value>> = {}) =>
  audio.transcribe(formOf(wishes));

const named = (name: string, bytes: Uint8Array = recording) =>
  new File([bytes as Uint8Array<ArrayBuffer>], name);

const heard = (body: object) => json(200, body);

function formAt(upstream: 'openai' | 'siliconflow', at = 0) {
  const { form } = audio[upstream].requests[at] ?? {};
  if (!form) throw new Error('The upstream was sent no form.');
  return form;
}

/** The fake reads types from names; only the bytes show what was sent. */
const rawForm = () => Buffer.from(audio.openai.requests[0]?.raw ?? []).toString('latin1');

describe('both rows of the price table', () => {
  test('stt-1: 0.006 dollars a minute of what the provider says that it heard', async () => {
    audio.openai.script('whisper-1', heard({ text: 'Guten Tag', duration: 8.47 }));
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

  test('emotion-stt-small: the same, by another provider', async () => {
    audio.siliconflow.script(senseVoice, heard({ text: '你好 😊', duration: 60.0041 }));
    const reply = await transcribe({ model: 'funaudio/emotion-stt-small' });
    expect(reply.json).toEqual({ text: '你好 😊', duration: 60.0041 });
    // 60.004 seconds are 6000.4 credits.
    expect((await audio.bill(reply)).credits).toBe(6001);
    expect(formAt('siliconflow').fields).toEqual({ model: [senseVoice] });
  });

  test('the length may be in the usage, or in quotes', async () => {
    audio.openai.script('whisper-1', [
      transcription('ok', 3),
      heard({ text: 'ok', duration: '2.5' }),
      heard({ text: 'ok', model: 'whisper-1', usage: { prompt_audio_seconds: 4 } }),
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
    ['no length', { text: 'ok' }],
    ['a negative one', { text: 'ok', duration: -3 }],
    ['one that is no number', { text: 'ok', duration: 'long' }],
  ])('is not charged when there is %s', async (_, body) => {
    audio.openai.script('whisper-1', heard(body));
    const bill = await audio.bill(await transcribe());
    expect([bill.credits, bill.status]).toEqual([0, 'success']);
    expect(bill.note).toBe(
      'The provider did not report the length of the audio, so nothing is charged.',
    );
  });

  test('is not charged a fee for the request either, when there is no length', async () => {
    audio.openai.script('fee-1', heard({ text: 'ok' }));
    const free = await transcribe({ model: 'test/fee' });
    expect((await audio.bill(free)).credits).toBe(0);
    audio.openai.script('fee-1', heard({ text: 'ok', duration: 1 }));
    const paid = await transcribe({ model: 'test/fee' });
    expect((await audio.bill(paid)).credits).toBe(100 + 1_000);
  });

  test('a file of a few bytes is as long as the provider says: pauses take no room', async () => {
    audio.openai.script('whisper-1', heard({ text: 'ok', duration: 90 }));
    const reply = await transcribe({ file: named('pause.ogg', opusFile(2)) });
    expect(reply.json).toEqual({ text: 'ok', duration: 90 });
    expect(await audio.bill(reply)).toMatchObject({ credits: 9_000, estimated: false, note: null });
  });

  test('a length that the file cannot have is charged by its own, and said so', async () => {
    audio.openai.script('whisper-1', heard({ text: 'ok', duration: 1e9 }));
    const reply = await transcribe();
    const bill = await audio.bill(reply);
    // What the file's own headers say, for which credits were held.
    expect(reply.json).toEqual({ text: 'ok', duration: 4.8 });
    expect([bill.credits, bill.estimated]).toEqual([480, true]);
    expect(bill.note).toBe('The provider reported a length that this file cannot have.');
    const { units } = await audio.gateway.record(reply.requestId);
    expect(units).toEqual({ audioMs: 4_800 });
  });

  test('a stream that is not wished for is none', async () => {
    audio.openai.script('whisper-1', heard({ text: 'ok', duration: 1 }));
    const reply = await transcribe({ stream: 'false' });
    expect([reply.status, reply.json]).toMatchObject([200, { text: 'ok' }]);
  });

  test('the demo listens, too', async () => {
    const reply = await transcribe({ model: 'demo/transcribe' });
    expect(reply.json).toMatchObject({ duration: 4.8 });
    expect(String(reply.json.text)).toContain(`has ${recording.length} bytes`);
    // 4.8 seconds at 0.001 dollars a minute.
    expect((await audio.bill(reply)).credits).toBe(80);
  });

  test('the demo tells of a segment all that OpenAI tells: some libraries insist', async () => {
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

describe('the provider gets', () => {
  test('the file as it came, under a name of ours, and every wish', async () => {
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
    ['the name alone', { timestamp_granularities: 'word' }, ['word']],
    ['JSON', { timestamp_granularities: '["word"]' }, ['word']],
    ['JSON in a list', { 'timestamp_granularities[]': '["segment","word"]' }, ['segment', 'word']],
    ['commas', { timestamp_granularities: 'word,segment' }, ['word', 'segment']],
    [
      'numbers, as PHP writes a list',
      { 'timestamp_granularities[0]': 'word', 'timestamp_granularities[1]': 'segment' },
      ['word', 'segment'],
    ],
    ['a blank', { timestamp_granularities: '' }, undefined],
  ])('times by other spellings, too: %s', async (_, times, sent) => {
    audio.openai.script('whisper-1', transcription());
    const reply = await transcribe({ response_format: 'verbose_json', ...times });
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
  ])('%s as what its bytes say', async (name, bytes, filename, type) => {
    audio.openai.script('whisper-1', transcription());
    expect((await transcribe({ file: named(name, bytes) })).status).toBe(200);
    const [file] = formAt('openai').files;
    expect(file?.name).toBe(filename);
    expect(rawForm()).toContain(`filename="${filename}"\r\ncontent-type: ${type}\r\n\r\n`);
    expect(Buffer.from(file?.bytes ?? []).equals(bytes)).toBe(true);
  });
});

describe('the formats', () => {
  const srt = '1\n00:00:00,000 --> 00:00:03,320\nHallo\n\n';
  const vtt = 'WEBVTT\n\n00:00:00.000 --> 00:00:03.320\nHallo\n\n';
  test.each([
    ['text', 'Hallo\n', 'text/plain; charset=utf-8'],
    ['srt', srt, 'text/plain; charset=utf-8'],
    ['vtt', vtt, 'text/vtt; charset=utf-8'],
  ])('%s comes as the provider wrote it, and is not billed', async (format, body, type) => {
    audio.openai.script('whisper-1', replay(body, { contentType: 'text/plain' }));
    const reply = await transcribe({ response_format: format });
    expect([reply.status, reply.text]).toEqual([200, body]);
    expect(reply.headers.get('content-type')).toBe(type);
    expect(formAt('openai').fields.response_format).toEqual([format]);
    const bill = await audio.bill(reply);
    expect(bill.credits).toBe(0);
    expect(bill.note).toContain('nothing is charged');
  });

  test('verbose_json has everything that was said, under our names', async () => {
    const words = [{ word: 'Hallo', start: 0, end: 0.5 }];
    const segments = [{ id: 0, start: 0, end: 0.5, text: 'Hallo' }];
    const told = { language: 'german', duration: 0.5, text: 'Hallo', segments, words, extra: [1] };
    audio.openai.script('whisper-1', heard({ ...told, model: 'whisper-1' }));
    const reply = await transcribe({ response_format: 'verbose_json' });
    expect(reply.json).toEqual({ task: 'transcribe', ...told, model: 'openai/stt-1' });
    expect((await audio.bill(reply)).credits).toBe(50);
  });

  test('verbose_json as it was recorded is kept, word for word', async () => {
    const recorded = readFixture('openai/transcription-verbose-words.json');
    audio.openai.script('whisper-1', replay(recorded));
    const times = { 'timestamp_granularities[]': ['word'] };
    const reply = await transcribe({ response_format: 'verbose_json', ...times });
    expect(reply.json).toEqual(JSON.parse(recorded));
    // 36.71 seconds at 100 credits.
    expect((await audio.bill(reply)).credits).toBe(3_671);
  });

  test('text as it was recorded is kept, the space before it included', async () => {
    const { headers, body } = JSON.parse(readFixture('groq/transcription-text.json'));
    audio.openai.script('whisper-1', replay(body, { contentType: headers['content-type'] }));
    const reply = await transcribe({ response_format: 'text' });
    expect([reply.status, reply.text]).toEqual([200, ' Hello from the Versal AISDK.']);
    expect(reply.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  });

  test('a provider that knows only JSON still answers in text, and tells the length', async () => {
    audio.siliconflow.script(senseVoice, heard({ text: '你好', duration: 2 }));
    const wishes = { response_format: 'text', language: 'zh', prompt: 'a', temperature: '0' };
    const reply = await transcribe({ model: 'funaudio/emotion-stt-small', ...wishes });
    expect([reply.status, reply.text]).toEqual([200, '你好\n']);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('language, prompt, temperature');
    expect((await audio.bill(reply)).credits).toBe(200);
  });
});

describe('when the first provider fails', () => {
  let usual: AudioGateway;
  // A provider that fails again and again is asked last, so each test has one that never failed.
  beforeEach(async () => {
    usual = audio;
    audio = await AudioGateway.start();
  });
  afterEach(async () => {
    await audio.stop();
    audio = usual;
  });

  test.each([
    ['is down', () => status(500)],
    ['shows a web page', () => htmlWith200()],
    ['hides its error', () => json(200, { error: { message: 'overloaded' } })],
    ['says nothing', () => json(200, { words: [] })],
  ])('because it %s, the whole file goes to the emotion-aware model', async (_, failing) => {
    audio.openai.script('whisper-1', failing());
    audio.siliconflow.script(senseVoice, heard({ text: 'gehört', duration: 1 }));
    const reply = await transcribe();
    expect(reply.json).toEqual({ text: 'gehört', duration: 1 });
    expect(audio.openai.requests).toHaveLength(1);
    const [file] = formAt('siliconflow').files;
    expect(Buffer.from(file?.bytes ?? []).equals(recording)).toBe(true);
    const { credits, provider } = await audio.bill(reply);
    expect([credits, provider]).toEqual([100, 'siliconflow']);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });

  test('subtitles do not go where there are no times', async () => {
    audio.openai.script('whisper-1', status(500));
    const reply = await transcribe({ response_format: 'srt' });
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect(reply.headers.get('content-type')).toStartWith('application/json');
    expect(audio.siliconflow.requests).toHaveLength(0);
    expect((await audio.bill(reply)).credits).toBe(0);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });
});

describe('bad input', () => {
  const elf = Buffer.from('\x7fELF\x02\x01\x01 and so on', 'latin1');
  const emotional = 'funaudio/emotion-stt-small';
  test.each<[string, Record<string, Value>, string]>([
    ['no model', { model: undefined }, 'model'],
    ['two models', { model: ['openai/stt-1', 'demo/transcribe'] }, 'model'],
    ['no file', { file: undefined }, 'file'],
    ['a text for a file', { file: 'talk.wav' }, 'file'],
    ['an empty file', { file: named('talk.wav', new Uint8Array()) }, 'file'],
    ['an unknown extension', { file: named('talk.exe') }, 'file'],
    ['a program named like audio', { file: named('talk.mp3', elf) }, 'file'],
    ['a script named like audio', { file: named('a.wav', Buffer.from('#!/bin/sh\nls')) }, 'file'],
    ['a file where a text belongs', { prompt: named('talk.wav') }, 'prompt'],
    ['an unknown format', { response_format: 'xml' }, 'response_format'],
    [
      'subtitles from a model without times',
      { model: emotional, response_format: 'vtt' },
      'response_format',
    ],
    ['a language that is none', { language: 'German' }, 'language'],
    ['a prompt that is a book', { prompt: 'x'.repeat(4097) }, 'prompt'],
    ['too hot', { temperature: '1.1' }, 'temperature'],
    ['below zero', { temperature: '-0.1' }, 'temperature'],
    ['no number', { temperature: 'warm' }, 'temperature'],
    ['a number of bits', { temperature: '0x1' }, 'temperature'],
    ['no digit', { temperature: '.' }, 'temperature'],
    [
      'unknown times',
      { response_format: 'verbose_json', 'timestamp_granularities[]': ['day'] },
      'timestamp_granularities[0]',
    ],
    [
      'unknown times in JSON',
      { response_format: 'verbose_json', timestamp_granularities: '["word", "day"]' },
      'timestamp_granularities[1]',
    ],
    ['times in plain JSON', { timestamp_granularities: ['word'] }, 'timestamp_granularities'],
    ['a stream', { stream: 'true' }, 'stream'],
  ])('%s', async (_, wishes, param) => {
    await audio.expectRefusal(await transcribe(wishes), 400, param);
  });

  // Those of tests/jobs/http.test.ts.
  test.each<[Record<string, Value>, string]>([
    [{ file: undefined }, 'file is required. Send an audio recording.'],
    [{ file: 'talk.wav' }, 'file must be a file, not a text; a file must have a filename.'],
    [{ audio: named('talk.wav') }, 'audio must be a text, not a file.'],
    [{ language: ['de', 'en'] }, 'language is given twice.'],
  ])('is told in the words that a job has for it: %#', async (wishes, sentence) => {
    expect((await transcribe(wishes)).error.message).toBe(sentence);
  });

  test('two files', async () => {
    const form = formOf({});
    form.append('file', named('second.wav'));
    await audio.expectRefusal(await audio.transcribe(form), 400, 'file');
  });

  test.each([1, 3 * 1024 * 1024])('a file that is %d bytes too large', async (more) => {
    const large = new Uint8Array(25 * 1024 * 1024 + more);
    large.set(recording);
    const reply = await transcribe({ file: named('talk.wav', large) });
    await audio.expectRefusal(reply, 413, 'file');
    expect(reply.error.message).toContain('; send larger recordings to POST /v1/jobs.');
  });

  test('starts behind a file of 25 MB', async () => {
    audio.openai.script('whisper-1', heard({ text: 'long', duration: 546.1 }));
    const large = new Uint8Array(25 * 1024 * 1024);
    large.set(recording);
    const reply = await transcribe({ file: named('talk.wav', large) });
    expect([reply.status, (await audio.bill(reply)).credits]).toEqual([200, 54_610]);
  });

  test('JSON instead of a form, and a form that never ends', async () => {
    const path = '/v1/audio/transcriptions';
    const wrong = await audio.gateway.post({ model: 'openai/stt-1' }, { path });
    await audio.expectRefusal(wrong, 415, null);
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
    const open = await audio.gateway.post(`${head}RIFF....WAVE`, { path, headers });
    await audio.expectRefusal(open, 400, null);
  });

  test('a model that does not listen, and no credits', async () => {
    const deaf = await transcribe({ model: 'openai/tts-1' });
    expect([deaf.status, deaf.error.type]).toEqual([400, 'model_capability_mismatch']);
    // 4.8 seconds are 480 credits.
    const poor = await audio.gateway.makeKey({ limit: 479 });
    const refused = await audio.transcribe(formOf({}), poor);
    expect([refused.status, refused.error.type]).toEqual([402, 'insufficient_credits']);
    expect(audio.openai.requests).toHaveLength(0);
    audio.openai.script('whisper-1', transcription());
    const rich = await audio.gateway.makeKey({ limit: 480 });
    expect((await audio.transcribe(formOf({}), rich)).status).toBe(200);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });
});

describe('a request that ends otherwise', () => {
  const path = '/v1/audio/transcriptions';
  const large = () => {
    const bytes = new Uint8Array(20 * 1024 * 1024);
    bytes.set(recording);
    return bytes;
  };

  test('because the client left while the provider listened, who is told so', async () => {
    audio.openai.script('whisper-1', hangBeforeHeaders());
    const leaving = new AbortController();
    const { url, keys } = audio.gateway;
    const headers = { authorization: `Bearer ${keys.routing}` };
    const init = { method: 'POST', headers, body: formOf({ file: large() }) };
    const sent = fetch(url + path, { ...init, signal: leaving.signal }).catch(() => 'left');
    await audio.openai.until((requests) => requests.find(({ bodyAt }) => bodyAt !== null));
    leaving.abort();
    expect(await sent).toBe('left');
    const gone = await audio.openai.until((requests) =>
      requests.find((e) => e.outcome === 'client-disconnected'),
    );
    expect(gone.bodyBytes).toBeGreaterThan(20 * 1024 * 1024);
    expect(audio.uploadsOnDisk()).toEqual([]);
    audio.openai.script('whisper-1', transcription());
    expect((await transcribe()).status).toBe(200);
  });

  test('because the provider refuses before it has read the file', async () => {
    audio.openai.script('/v1/audio/transcriptions', answerEarly(status(400, 'Not this one')));
    const reply = await transcribe({ file: large() });
    expect([reply.status, (await audio.bill(reply)).credits]).toEqual([400, 0]);
    expect(audio.uploadsOnDisk()).toEqual([]);
  });

  test('because it was answered before, under the same Idempotency-Key', async () => {
    audio.openai.script('whisper-1', heard({ text: 'once', duration: 1 }));
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
    // The file is part of what makes a request the same.
    expect((await send(wavFile(21))).status).toBe(409);
  });

  test('because the provider took too long, unless the recording is long, too', async () => {
    const impatient = await AudioGateway.start([], { timeout_ms: 300 });
    const late = delayed(900, heard({ text: 'at last', duration: 1 }));
    impatient.openai.script('whisper-1', late);
    impatient.siliconflow.script(senseVoice, late);
    // A tenth of 96 seconds is patience enough; a tenth of 0.96 adds nothing.
    const long = await impatient.transcribe(formOf({ file: wavFile(400) }));
    expect([long.status, long.json.text]).toEqual([200, 'at last']);
    impatient.openai.script('whisper-1', hangBeforeHeaders());
    impatient.siliconflow.script(senseVoice, hangBeforeHeaders());
    const short = await impatient.transcribe(formOf({ file: wavFile(4) }));
    expect([short.status, short.error.type]).toEqual([504, 'upstream_error']);
    await impatient.stop();
  });
});
