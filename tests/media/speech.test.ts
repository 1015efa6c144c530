/** POST /v1/audio/speech: requests to providers, audio, charges, and rejected requests. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { mp3File, opusFile, wavFile } from '../support/audio-files.ts';
import { AudioGateway, type SpeechReply } from '../support/audio-gateway.ts';
import { connectRaw, postText } from '../support/fake-upstream/raw-client.ts';
import {
  cutMidStream,
  emptyBody,
  encoded,
  gated,
  hangMidStream,
  htmlWith200,
  json,
  replay,
  speech,
  status,
} from '../support/fake-upstream.ts';

let audio: AudioGateway;

const ownVoice = {
  id: 'test/plain',
  name: 'Voice without settings',
  input_modalities: ['text'],
  output_modalities: ['audio'],
  features: ['speech'],
  endpoints: [{ provider: 'openai', model: 'plain-voice', pricing: { bytes: '1' } }],
};

/** A model with the style `first_party` and no list of voices. */
const unlisted = { ...ownVoice, id: 'test/unlisted', speech: { style: 'first_party' } };

/** A model whose configuration names only the default voice. */
const oneVoice = { ...ownVoice, id: 'test/one-voice', speech: { default_voice: 'vivian' } };

/** Served by SiliconFlow, which has the same voices for every model. */
const voiceless = {
  ...ownVoice,
  id: 'test/voiceless',
  endpoints: [{ provider: 'siliconflow', model: 'new/voice', pricing: { bytes: '1' } }],
};
const strict = { ...voiceless, id: 'test/strict', speech: { style: 'first_party' } };

beforeAll(async () => {
  audio = await AudioGateway.start([ownVoice, unlisted, oneVoice, voiceless, strict]);
});
afterAll(() => audio.stop());
afterEach(() => audio.reset());

/** Starts a gateway per test, because repeated failures would change the order of providers. */
function freshGatewayPerTest(provider: object = {}): void {
  let shared: AudioGateway;
  beforeEach(async () => {
    shared = audio;
    audio = await AudioGateway.start([], provider);
  });
  afterEach(async () => {
    await audio.stop();
    audio = shared;
  });
}

const cosyVoice = 'FunAudioLLM/CosyVoice2-0.5B';

/** 12 characters, and 7 + 6 + 2 + 4 = 19 bytes in UTF-8. */
const mixed = 'Hello, 世界! 😀';
/** 5 characters of 3 bytes each. */
const chinese = '你好，世界';

const speak = (body: object) =>
  audio.speak({ model: 'openai/tts-1', input: mixed, voice: 'alloy', ...body });

/** Returns the fake upstream's audio: the byte at position n is n modulo 251. */
const noise = (length: number) => Uint8Array.from({ length }, (_, index) => index % 251);

function expectNoise({ status: code, error, bytes }: SpeechReply, length: number): void {
  expect([code, error]).toEqual([200, {}]);
  expect(Buffer.from(bytes).equals(noise(length))).toBe(true);
}

const idOf = ({ headers }: Response) => ({ requestId: headers.get('x-request-id') ?? '' });

function eventsOf(audioBytes: Uint8Array, usage: unknown): string {
  const half = audioBytes.length / 2;
  const deltas = [audioBytes.subarray(0, half), audioBytes.subarray(half)].map((part) => ({
    type: 'speech.audio.delta',
    audio: Buffer.from(part).toString('base64'),
  }));
  const done = { type: 'speech.audio.done', ...(usage ? { usage } : {}) };
  return [...deltas, done].map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
}

const eventStream = { contentType: 'text/event-stream', piece: 100 } as const;

test('forwards recorded audio byte for byte', async () => {
  const file = new URL('../../fixtures/openai/speech-gpt-4o-mini-tts.mp3', import.meta.url);
  const recorded = readFileSync(file);
  audio.openai.script(
    'gpt-4o-mini-tts',
    replay(recorded, { contentType: 'audio/mpeg', piece: 999 }),
  );
  const input = 'Ruby is a programming language designed for developer happiness.';
  const reply = await speak({ model: 'openai/mini-tts', input });
  expect([reply.status, reply.bytes.length]).toEqual([200, 85_632]);
  expect(recorded.equals(reply.bytes)).toBe(true);
  expect(reply.headers.get('content-type')).toBe('audio/mpeg');
});

describe('the charge for speech', () => {
  test('is 15 dollars per million characters for tts-1', async () => {
    audio.openai.script('tts-1', speech());
    const latin = await speak({});
    expectNoise(latin, 4096);
    // 12 characters at 15 credits.
    expect(await audio.bill(latin)).toEqual({
      credits: 180,
      provider: 'openai',
      note: null,
      estimated: false,
      status: 'success',
    });
    // 5 characters, regardless of their bytes.
    expect((await audio.bill(await speak({ input: chinese }))).credits).toBe(75);
  });

  test('is 30 dollars per million characters for tts-1-hd', async () => {
    audio.openai.script('tts-1-hd', speech());
    const reply = await speak({ model: 'openai/tts-1-hd' });
    expectNoise(reply, 4096);
    expect((await audio.bill(reply)).credits).toBe(360);
  });

  test('is 12 dollars per million reported tokens and a request fee for mini-tts', async () => {
    const usage = { input_tokens: 14, output_tokens: 230, total_tokens: 244 };
    audio.openai.script('gpt-4o-mini-tts', replay(eventsOf(noise(3000), usage), eventStream));
    const reply = await speak({ model: 'openai/mini-tts', instructions: 'Whisper.' });
    expectNoise(reply, 3000);
    expect(reply.headers.get('content-type')).toBe('audio/mpeg');
    expect(audio.openai.requests[0]?.json).toEqual({
      model: 'gpt-4o-mini-tts',
      input: mixed,
      voice: 'alloy',
      response_format: 'mp3',
      stream_format: 'sse',
      instructions: 'Whisper.',
    });
    // 244 tokens at 12 credits, and 0.0012 dollars for the request.
    const bill = await audio.bill(reply);
    expect([bill.credits, bill.estimated, bill.note]).toEqual([2_928 + 1_200, false, null]);
  });

  test('is estimated for the text of mini-tts if the provider counts only the audio', async () => {
    const usage = { input_tokens: 0, output_tokens: 40, total_tokens: 40 };
    audio.openai.script('gpt-4o-mini-tts', replay(eventsOf(noise(3000), usage), eventStream));
    const bill = await audio.bill(await speak({ model: 'openai/mini-tts', input: chinese }));
    // 15 bytes are estimated as 4 tokens.
    expect([bill.credits, bill.estimated]).toEqual([(4 + 40) * 12 + 1_200, true]);
  });

  test.each([
    ['plain audio', () => speech()],
    ['events without usage', () => replay(eventsOf(noise(4096), null), eventStream)],
    [
      'negative usage',
      () => replay(eventsOf(noise(4096), { input_tokens: -3, output_tokens: 1.5 }), eventStream),
    ],
    [
      'implausible usage',
      () => replay(eventsOf(noise(4096), { input_tokens: 5, output_tokens: 9e8 }), eventStream),
    ],
  ])('is estimated for mini-tts, with a note, after %s', async (_, answer) => {
    audio.openai.script('gpt-4o-mini-tts', answer());
    const reply = await speak({ model: 'openai/mini-tts', input: chinese });
    expectNoise(reply, 4096);
    // 15 bytes are estimated as 4 tokens at 12 credits, plus the request fee.
    const bill = await audio.bill(reply);
    expect([bill.credits, bill.estimated]).toEqual([48 + 1_200, true]);
    expect(bill.note).toContain('estimate');
  });

  test.each([
    ['funaudio/cjk-tts-0.5b', cosyVoice],
    ['fishaudio/multilingual-tts-1.5', 'fishaudio/fish-speech-1.5'],
    ['indexteam/clone-tts-2', 'IndexTeam/IndexTTS-2'],
  ])('is 7.15 dollars per million UTF-8 bytes for %s', async (model, upstreamModel) => {
    audio.siliconflow.script(upstreamModel, speech());
    const reply = await speak({ model, input: chinese, voice: 'nova' });
    expectNoise(reply, 4096);
    expect(audio.siliconflow.requests[0]?.path).toBe('/v1/audio/speech');
    expect(audio.siliconflow.requests[0]?.json).toEqual({
      model: upstreamModel,
      input: chinese,
      voice: `${upstreamModel}:anna`,
      response_format: 'mp3',
      stream: true,
    });
    // 15 bytes at 7.15 are 107.25 credits.
    expect((await audio.bill(reply)).credits).toBe(108);
    // 19 bytes are 135.85.
    expect((await audio.bill(await speak({ model }))).credits).toBe(136);
  });

  test('is 1 dollar per million characters for the demo', async () => {
    const reply = await speak({ model: 'demo/speech', response_format: 'wav' });
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'audio/wav']);
    expect(Buffer.from(reply.bytes.subarray(0, 4)).toString()).toBe('RIFF');
    // 12 characters at 1 credit.
    expect((await audio.bill(reply)).credits).toBe(12);
  });
});

describe('the audio of a speech request', () => {
  test.each([
    ['mp3', 'audio/mpeg'],
    ['opus', 'audio/ogg'],
    ['aac', 'audio/aac'],
    ['flac', 'audio/flac'],
    ['wav', 'audio/wav'],
    ['pcm', 'audio/pcm'],
  ])('in %s has the content type %s', async (format, type) => {
    audio.openai.script('tts-1', speech({ contentType: 'application/octet-stream' }));
    const reply = await speak({ response_format: format, speed: 1.5 });
    expectNoise(reply, 4096);
    expect(reply.headers.get('content-type')).toBe(type);
    expect(reply.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
    expect(audio.openai.requests[0]?.json).toEqual({
      model: 'tts-1',
      input: mixed,
      voice: 'alloy',
      response_format: format,
      speed: 1.5,
    });
  });

  test.each([
    ['a WAV file', wavFile(1), 'mp3', 'audio/wav'],
    ['a WAV file', wavFile(1), 'pcm', 'audio/wav'],
    ['an Ogg file', opusFile(3), 'aac', 'audio/ogg'],
    ['an MP3 file', mp3File(1), 'wav', 'audio/mpeg'],
    ['a quiet sample', Uint8Array.of(0xff, 0xff, 0xfe, 0xff), 'pcm', 'audio/pcm'],
  ])('has the detected content type: %s', async (_, bytes, format, type) => {
    audio.openai.script('tts-1', replay(bytes, { contentType: 'audio/mpeg' }));
    const reply = await speak({ response_format: format });
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, type]);
    expect(Buffer.from(reply.bytes).equals(bytes)).toBe(true);
  });

  test('is streamed to the client while the provider sends it', async () => {
    audio.openai.script('tts-1', gated('rest', 2, speech()));
    const body = { model: 'openai/tts-1', input: mixed, voice: 'alloy' };
    const response = await audio.gateway.fetch(body, { path: '/v1/audio/speech' });
    // Disables the response buffering of nginx.
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    expect(value?.length).toBeGreaterThanOrEqual(1024);
    audio.openai.open('rest');
    let rest = 0;
    for (let step = await reader.read(); !step.done; step = await reader.read()) {
      rest += step.value.length;
    }
    expect((value?.length ?? 0) + rest).toBe(4096);
  });

  test("is requested from SiliconFlow at the sample rate of OpenAI's PCM", async () => {
    audio.siliconflow.script(cosyVoice, speech());
    const model = 'funaudio/cjk-tts-0.5b';
    expectNoise(await speak({ model, response_format: 'pcm', voice: 'no such voice' }), 4096);
    expect(audio.siliconflow.requests[0]?.json).toMatchObject({
      sample_rate: 24_000,
      voice: `${cosyVoice}:alex`,
    });
  });

  test("has the voice that an object names, as OpenAI's clients send it", async () => {
    audio.openai.script('plain-voice', speech());
    expectNoise(await speak({ model: 'test/plain', voice: { id: 'aria' } }), 4096);
    expect(audio.openai.requests[0]?.json).toMatchObject({ voice: 'aria' });
    audio.siliconflow.script('new/voice', speech());
    expectNoise(await speak({ model: 'test/voiceless', voice: { id: 'nova' } }), 4096);
    expect(audio.siliconflow.requests.at(-1)?.json).toMatchObject({ voice: 'new/voice:anna' });
    const custom = await speak({ model: 'test/plain', voice: { id: 'voice_1234' } });
    expect(custom.status).toBe(400);
    expect(custom.error).toMatchObject({ param: 'voice.id' });
  });

  test("has whichever voice the client requests if the model's voices are unknown", async () => {
    audio.openai.script('plain-voice', speech());
    const reply = await speak({ model: 'test/plain', voice: 'aria', instructions: 'Sing.' });
    expectNoise(reply, 4096);
    const sent = { voice: 'aria', instructions: 'Sing.' };
    expect(audio.openai.requests[0]?.json).toMatchObject(sent);
    // 19 bytes at 1 credit.
    expect((await audio.bill(reply)).credits).toBe(19);
  });

  test("has the default voice if the model's configuration names only that", async () => {
    audio.openai.script('plain-voice', speech());
    expectNoise(await speak({ model: 'test/one-voice', voice: 'alloy' }), 4096);
    expect(audio.openai.requests[0]?.json).toMatchObject({ voice: 'vivian' });
  });

  test.each([
    ['test/voiceless', 'nova', 'anna'],
    ['test/voiceless', 'claire', 'claire'],
    ['test/voiceless', 'no such voice', 'alex'],
    ['test/strict', 'nova', 'anna'],
  ])("has SiliconFlow's voice for %s: %s becomes %s", async (model, voice, upstreamVoice) => {
    audio.siliconflow.script('new/voice', speech());
    expectNoise(await speak({ model, voice }), 4096);
    expect(audio.siliconflow.requests[0]?.json).toMatchObject({
      voice: `new/voice:${upstreamVoice}`,
    });
  });

  test('ignores speed and instructions for a mapped model and reports them', async () => {
    audio.siliconflow.script(cosyVoice, speech());
    const body = { model: 'funaudio/cjk-tts-0.5b', speed: 9, instructions: 'Whisper.' };
    const reply = await speak({ ...body, voice: 'speech:mine:a:b' });
    expectNoise(reply, 4096);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('speed, instructions');
    const sent = JSON.stringify(audio.siliconflow.requests[0]?.json);
    expect(sent).not.toMatch(/speed|instructions/);
    expect(sent).toContain('"voice":"speech:mine:a:b"');
    audio.siliconflow.script(cosyVoice, speech());
    const usual = await speak({ ...body, speed: 1 });
    expect(usual.headers.get('x-tollgate-dropped-params')).toBe('instructions');
  });
});

describe('the fallback of a speech request', () => {
  freshGatewayPerTest();

  test.each([
    ['fails with 500', () => status(500)],
    ['fails with 503', () => status(503)],
    ['returns an error with status 200', () => json(200, { error: { message: 'overloaded' } })],
    ['returns an HTML page', () => htmlWith200()],
    ['returns an empty body', () => emptyBody()],
    ['returns compressed audio', () => encoded(['gzip'], speech())],
    ['closes the connection before any audio', () => cutMidStream(0, 'connection', speech())],
  ])('is charged at its own price if the first provider %s', async (_, failing) => {
    audio.openai.script('tts-1', failing());
    audio.siliconflow.script(cosyVoice, speech());
    const reply = await speak({ input: chinese, voice: 'shimmer', speed: 2 });
    expectNoise(reply, 4096);
    expect(audio.openai.requests).toHaveLength(1);
    expect(audio.siliconflow.requests[0]?.json).toMatchObject({
      voice: `${cosyVoice}:bella`,
      speed: 2,
    });
    const { credits, provider } = await audio.bill(reply);
    expect([credits, provider]).toEqual([108, 'siliconflow']);
  });

  test('is impossible for tts-1-hd, so the request fails', async () => {
    audio.openai.script('tts-1-hd', status(500));
    const reply = await speak({ model: 'openai/tts-1-hd' });
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect(reply.headers.get('content-type')).toStartWith('application/json');
    expect((await audio.bill(reply)).credits).toBe(0);
    expect(audio.siliconflow.requests).toHaveLength(0);
  });

  test.each([
    ['a text of 1,001 bytes', { input: `${'世'.repeat(333)}ab` }],
    ['a format that it lacks', { response_format: 'flac' }],
  ])('is not tried for %s', async (_, body) => {
    audio.openai.script('tts-1', status(500));
    const reply = await speak(body);
    expect(reply.status).toBe(502);
    expect(audio.siliconflow.requests).toHaveLength(0);
  });

  test('fails if the events contain no audio', async () => {
    const events = eventsOf(noise(0), null).replaceAll('"audio":""', '"audio":"="');
    audio.openai.script('gpt-4o-mini-tts', replay(events, eventStream));
    const reply = await speak({ model: 'openai/mini-tts' });
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect((await audio.bill(reply)).credits).toBe(0);
  });

  test('is not tried after a 400, and the client receives the error message', async () => {
    audio.openai.script('tts-1', status(400, 'This text cannot be spoken'));
    const reply = await speak({});
    expect([reply.status, reply.error.message]).toEqual([400, 'This text cannot be spoken']);
    expect(audio.siliconflow.requests).toHaveLength(0);
  });
});

describe('interrupted speech', () => {
  // A silent provider is interrupted by its timeout, which doesn't depend on the machine's speed.
  freshGatewayPerTest({ idle_timeout_ms: 1_000 });

  const body = { model: 'openai/tts-1', input: mixed, voice: 'alloy' };

  /** Reads from the socket, because `fetch` drops bytes that arrive together with the end. */
  async function receive(fields: object = {}) {
    const { port, keys } = audio.gateway;
    const connection = await connectRaw(port);
    const authorization = `authorization: Bearer ${keys.routing}\r\n`;
    connection.send(postText('/v1/audio/speech', { ...body, ...fields }, authorization));
    const { text, bytes } = await connection.finished();
    const [head = ''] = text.split('\r\n\r\n', 1);
    const requestId = /^x-request-id: (\S+)$/im.exec(head)?.[1] ?? '';
    const content = unchunked(bytes.subarray(head.length + 4));
    return { status: Number(head.split(' ')[1]), requestId, ...content };
  }

  function unchunked(chunks: Buffer): { bytes: number; isComplete: boolean } {
    let bytes = 0;
    for (let index = 0; index < chunks.length; ) {
      const end = chunks.indexOf('\r\n', index);
      const size = Number.parseInt(chunks.toString('latin1', index, end), 16);
      if (size === 0) return { bytes, isComplete: true };
      bytes += Math.min(size, chunks.length - end - 2);
      index = end + 2 + size + 2;
    }
    return { bytes, isComplete: false };
  }

  test('is charged in proportion to its estimated full length', async () => {
    audio.openai.script('tts-1', hangMidStream(2, speech()));
    const received = await receive();
    expect(received).toMatchObject({ status: 200, bytes: 2048, isComplete: false });
    // 19 bytes of text take 19/15 seconds to speak, or 20,267 bytes of MP3. 2,048 bytes are
    // 12 × 2,048 / 20,267 = 1.2 of the 12 characters, rounded up to 2, at 15 credits each.
    expect(await audio.bill(received)).toEqual({
      credits: 30,
      provider: 'openai',
      note:
        'The provider ended the response early; 2048 of about 20267 bytes of audio were delivered, ' +
        'and the charge is proportional.',
      estimated: true,
      status: 'error',
    });
  });

  test('is charged in proportion to its content-length', async () => {
    const options = { contentType: 'audio/mpeg', streamed: false } as const;
    audio.openai.script('tts-1', hangMidStream(1, replay(noise(8192), options)));
    const received = await receive();
    expect([received.bytes, received.isComplete]).toEqual([4096, false]);
    // Half of 12 characters.
    const bill = await audio.bill(received);
    expect([bill.credits, bill.estimated]).toEqual([90, false]);
    expect(bill.note).toContain('4096 of 8192 bytes');
  });

  test('is detected by the missing final event of a stream', async () => {
    const events = eventsOf(noise(3000), null).replace(/data: \{"type":"speech.audio.done.*$/s, '');
    audio.openai.script('gpt-4o-mini-tts', replay(events, { contentType: 'text/event-stream' }));
    const received = await receive({ model: 'openai/mini-tts' });
    expect([received.bytes, received.isComplete]).toEqual([3000, false]);
    expect((await audio.bill(received)).status).toBe('error');
  });

  test('is detected even if the stream contains megabytes of comments', async () => {
    const comments = `: ${'x'.repeat(1_021)}\n`.repeat(17 * 1_024);
    const events = eventsOf(noise(3000), null).replace('\n\n', `\n\n${comments}`);
    audio.openai.script('gpt-4o-mini-tts', replay(events, { contentType: 'text/event-stream' }));
    const received = await receive({ model: 'openai/mini-tts' });
    expect([received.bytes, received.isComplete]).toEqual([1500, false]);
    expect((await audio.bill(received)).status).toBe('error');
  });
});

describe('speech for a client that disconnects early', () => {
  test('is charged in proportion and canceled upstream', async () => {
    audio.openai.script('tts-1', gated('never', 3, speech()));
    const client = new AbortController();
    const body = { model: 'openai/tts-1', input: mixed, voice: 'alloy' };
    const options = { path: '/v1/audio/speech', signal: client.signal };
    const response = await audio.gateway.fetch(body, options);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    client.abort();
    await audio.openai.until((requests) =>
      requests.find((entry) => entry.outcome === 'client-disconnected'),
    );
    const bill = await audio.bill(idOf(response));
    expect(bill.note).toMatch(/^The client disconnected early; \d+ of about 20267 bytes/);
    expect([15, 30]).toContain(bill.credits);
    expect(bill.status).toBe('success');
  });
});

describe('an invalid speech request', () => {
  const long = 'x'.repeat(4096);
  test.each([
    ['no model', { model: undefined }, 'model'],
    ['no input', { input: undefined }, 'input'],
    ['an empty input', { input: '' }, 'input'],
    ['a blank input', { input: ' \n' }, 'input'],
    ['an input that is not a string', { input: ['a'] }, 'input'],
    ['an unpaired surrogate', { input: 'a\ud800b' }, 'input'],
    ['4,097 characters', { input: `${long}y` }, 'input'],
    [
      '1,001 bytes for a mapped model',
      { model: 'funaudio/cjk-tts-0.5b', input: `${'世'.repeat(333)}ab` },
      'input',
    ],
    [
      '1,001 bytes for a model without settings',
      { model: 'test/plain', input: 'x'.repeat(1001) },
      'input',
    ],
    ['no voice', { voice: undefined }, 'voice'],
    ['a voice that is not a string', { voice: { id: 'mine' } }, 'voice'],
    ['an unknown voice', { voice: 'gandalf' }, 'voice'],
    ['a voice named like an object method', { voice: 'toString' }, 'voice'],
    [
      'an unknown voice of a first_party model without a list',
      { model: 'test/unlisted', voice: 'gandalf' },
      'voice',
    ],
    ['an unknown format', { response_format: 'midi' }, 'response_format'],
    [
      'a format that the only provider lacks',
      { model: 'funaudio/cjk-tts-0.5b', response_format: 'aac' },
      'response_format',
    ],
    ['a speed of 0.24', { speed: 0.24 }, 'speed'],
    ['a speed of 4.01', { speed: 4.01 }, 'speed'],
    ['a speed that is not a number', { speed: 'fast' }, 'speed'],
    ['instructions that are not a string', { instructions: 5 }, 'instructions'],
    ['a stream of events', { stream_format: 'sse' }, 'stream_format'],
  ])('is rejected: %s', async (_, body, param) => {
    await audio.expectRejection(await speak(body), 400, param);
  });

  test('does not include a request for a default voice of a first_party model', async () => {
    for (const voice of ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer']) {
      audio.openai.script('plain-voice', speech());
      expectNoise(await speak({ model: 'test/unlisted', voice }), 4096);
    }
  });

  test('has the same error messages as an invalid job', async () => {
    const slow = await speak({ speed: 0.24 });
    expect(slow.error.message).toBe('speed must be a number from 0.25 to 4, not 0.24.');
    const { error } = await speak({ model: 'test/unlisted', voice: 'gandalf' });
    const six = 'alloy, echo, fable, onyx, nova, shimmer';
    expect(error.message).toBe(`voice must be one of ${six} for test/unlisted.`);
  });

  test('has an error that suggests a job if its text is too long', async () => {
    const { error } = await speak({ input: `${long}y` });
    expect(error.message).toContain('/v1/jobs');
    expect(error.message).toContain('4097 characters');
  });

  test('does not include a request with a text of the maximum length', async () => {
    audio.openai.script('tts-1', speech());
    // 4,096 characters of 4 bytes.
    expectNoise(await speak({ input: '😀'.repeat(4096) }), 4096);
    audio.siliconflow.script(cosyVoice, speech());
    const longest = { model: 'funaudio/cjk-tts-0.5b', input: `${'世'.repeat(333)}a` };
    expectNoise(await speak(longest), 4096);
  });

  test('is rejected for a model without speech and for an unknown model', async () => {
    const noSpeech = await speak({ model: 'openai/stt-1' });
    expect([noSpeech.status, noSpeech.error.type]).toEqual([400, 'model_capability_mismatch']);
    await audio.expectRejection(await speak({ model: 'openai/tts-9' }), 404, 'model');
  });

  test('is rejected without enough credits', async () => {
    const body = { model: 'openai/tts-1', input: mixed, voice: 'alloy' };
    const poor = await audio.gateway.makeKey({ limit: 100 });
    const reply = await audio.speak(body, poor);
    expect([reply.status, reply.error.type]).toEqual([402, 'insufficient_credits']);
    expect(audio.openai.requests).toHaveLength(0);
  });
});
