/** Routing fields in multipart forms: `models`, `provider`, and `route` work as they do in JSON. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import OpenAI, { toFile } from 'openai';
import { wavFile } from '../support/audio-files.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { images, json, speech, status500 } from '../support/fake-upstream.ts';
import {
  edit,
  form,
  gateway,
  imageOf,
  startImageGateway,
  stopImageGateway,
  upstream,
} from '../support/image-gateway.ts';

const transcript = { text: 'Guten Tag', duration: 2 };
const senseVoice = 'FunAudioLLM/SenseVoiceSmall';

describe('routing fields of a transcription form', () => {
  let audio: AudioGateway;

  beforeAll(async () => {
    audio = await AudioGateway.start();
  });
  afterAll(() => audio.stop());
  afterEach(() => audio.reset());

  function transcribe(fields: readonly (readonly [string, string])[]) {
    const body = new FormData();
    body.append('file', new File([wavFile(20).slice()], 'talk.wav'));
    for (const [name, value] of fields) body.append(name, value);
    return audio.transcribe(body);
  }

  const requestCounts = () => [audio.openai.requests.length, audio.siliconflow.requests.length];

  test.each([
    [[['provider', '{"only":["siliconflow"]}']]],
    [[['provider[only][]', 'siliconflow']]],
    [[['provider[order][]', 'siliconflow']]],
  ] as const)('choose the provider: %j', async (fields) => {
    audio.siliconflow.script(senseVoice, json(200, transcript));
    const reply = await transcribe([['model', 'openai/stt-1'], ...fields]);
    expect([reply.status, reply.json.text]).toEqual([200, 'Guten Tag']);
    expect(requestCounts()).toEqual([0, 1]);
    // The gateway's own fields aren't sent to the provider.
    expect(audio.siliconflow.requests[0]?.form?.fields).toEqual({ model: [senseVoice] });
  });

  test('try fallback models in order', async () => {
    audio.openai.script('whisper-1', json(400, { error: { message: 'Not this one.' } }));
    audio.siliconflow.script(senseVoice, json(200, transcript));
    const chain = [
      ['models', 'openai/stt-1'],
      ['models', 'funaudio/emotion-stt-small'],
    ] as const;
    const reply = await transcribe([...chain, ['provider', '{"ignore":["nobody"]}']]);
    expect([reply.status, reply.json.text]).toEqual([200, 'Guten Tag']);
    expect(requestCounts()).toEqual([1, 1]);
  });

  test('can forbid fallbacks', async () => {
    audio.openai.script('whisper-1', status500());
    const reply = await transcribe([
      ['model', 'openai/stt-1'],
      ['provider[allow_fallbacks]', 'false'],
    ]);
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect(requestCounts()).toEqual([1, 0]);
  });

  test("accept lists and objects as OpenAI's SDK serializes them", async () => {
    audio.siliconflow.script(senseVoice, json(200, transcript));
    const { url, keys } = audio.gateway;
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: keys.routing, maxRetries: 0 });
    const routing = {
      models: ['openai/stt-1', 'funaudio/emotion-stt-small'],
      provider: { only: ['siliconflow'], allow_fallbacks: false },
      route: 'fallback',
    };
    const file = await toFile(wavFile(20), 'talk.wav');
    const transcription = await client.audio.transcriptions.create({
      model: 'openai/stt-1',
      file,
      ...routing,
    });
    expect(transcription.text).toBe('Guten Tag');
    expect(requestCounts()).toEqual([0, 1]);
  });

  test.each([
    [[['models', '["openai/stt-1"']], 400, 'models'],
    [[['models', '[1]']], 400, 'models[0]'],
    [[['provider', 'siliconflow']], 400, 'provider'],
    [[['provider[order]', 'siliconflow']], 400, 'provider.order'],
    [[['provider', '{"only":["nobody"]}']], 404, 'provider'],
    [[['route', 'somewhere']], 400, 'route'],
  ] as const)(
    'are validated, and a rejected request is logged with its model: %j',
    async (fields, code, param) => {
      const reply = await transcribe([['model', 'openai/stt-1'], ...fields]);
      await audio.expectRejection(reply, code, param);
      const { requestedModel } = await audio.gateway.record(reply.requestId);
      expect(requestedModel).toBe('openai/stt-1');
    },
  );

  test('choose the provider of a speech request in JSON', async () => {
    audio.siliconflow.script('FunAudioLLM/CosyVoice2-0.5B', speech());
    const provider = { only: ['siliconflow'] };
    const reply = await audio.speak({
      model: 'openai/tts-1',
      input: 'Hi',
      voice: 'alloy',
      provider,
    });
    expect([reply.status, requestCounts()]).toEqual([200, [0, 1]]);
  });
});

describe('routing fields of an image edit form', () => {
  beforeAll(startImageGateway);
  afterAll(stopImageGateway);
  afterEach(() => upstream.reset());

  test('choose the provider', async () => {
    upstream.script('good-image', images());
    imageOf(await edit({ model: 'test/spare', provider: '{"only":["second"]}' }));
    expect(upstream.requests.map(({ path }) => path)).toEqual(['/second/v1/images/edits']);
    expect(form().fields).toEqual({ model: ['good-image'], prompt: ['make it green'] });
  });

  test('try fallback models in order', async () => {
    upstream.script('gpt-image', json(400, { error: { message: 'Not this one.' } }));
    upstream.script('flat-image', images());
    const reply = await edit({ models: '["test/image","test/flat"]', route: 'fallback' });
    imageOf(reply);
    expect([reply.json.model, upstream.requests.length]).toEqual(['test/flat', 2]);
  });

  test.each([
    [{ provider: 'second' }, 400],
    [{ 'provider[only][]': 'nobody' }, 404],
    [{ route: 'somewhere' }, 400],
  ])(
    'are validated, and a rejected request is logged with its model: %j',
    async (fields: Record<string, string>, code) => {
      const reply = await edit({ model: 'test/spare', ...fields });
      expect([reply.status, reply.error.code]).toEqual([code, 'invalid_request_error']);
      expect(upstream.requests).toHaveLength(0);
      expect((await gateway.record(reply.requestId)).requestedModel).toBe('test/spare');
    },
  );
});
