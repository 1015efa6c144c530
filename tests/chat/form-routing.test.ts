/** `models`, `provider` and `route` in forms, for audio and for images: they choose as in JSON. */
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
  startImageRig,
  stopImageRig,
  upstream,
} from '../support/image-rig.ts';

const hear = { text: 'Guten Tag', duration: 2 };
const senseVoice = 'FunAudioLLM/SenseVoiceSmall';

describe('a transcription', () => {
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

  const asked = () => [audio.openai.book.length, audio.siliconflow.book.length];

  test.each([
    [[['provider', '{"only":["siliconflow"]}']]],
    [[['provider[only][]', 'siliconflow']]],
    [[['provider[order][]', 'siliconflow']]],
  ] as const)('goes to the provider that the form names: %j', async (fields) => {
    audio.siliconflow.script(senseVoice, json(200, hear));
    const reply = await transcribe([['model', 'openai/stt-1'], ...fields]);
    expect([reply.status, reply.json.text]).toEqual([200, 'Guten Tag']);
    expect(asked()).toEqual([0, 1]);
    // What is ours does not go on to the provider.
    expect(audio.siliconflow.book[0]?.form?.fields).toEqual({ model: [senseVoice] });
  });

  test('goes along a chain of models', async () => {
    audio.openai.script('whisper-1', json(400, { error: { message: 'Not this one.' } }));
    audio.siliconflow.script(senseVoice, json(200, hear));
    const chain = [
      ['models', 'openai/stt-1'],
      ['models', 'funaudio/emotion-stt-small'],
    ] as const;
    const reply = await transcribe([...chain, ['provider', '{"ignore":["nobody"]}']]);
    expect([reply.status, reply.json.text]).toEqual([200, 'Guten Tag']);
    expect(asked()).toEqual([1, 1]);
  });

  test('stays where it is when it may not fall back', async () => {
    audio.openai.script('whisper-1', status500());
    const reply = await transcribe([
      ['model', 'openai/stt-1'],
      ['provider[allow_fallbacks]', 'false'],
    ]);
    expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
    expect(asked()).toEqual([1, 0]);
  });

  test('understands what OpenAI’s library makes of lists and objects', async () => {
    audio.siliconflow.script(senseVoice, json(200, hear));
    const { url, keys } = audio.gateway;
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: keys.routing, maxRetries: 0 });
    const ours = {
      models: ['openai/stt-1', 'funaudio/emotion-stt-small'],
      provider: { only: ['siliconflow'], allow_fallbacks: false },
      route: 'fallback',
    };
    const file = await toFile(wavFile(20), 'talk.wav');
    const heard = await client.audio.transcriptions.create({
      model: 'openai/stt-1',
      file,
      ...ours,
    });
    expect(heard.text).toBe('Guten Tag');
    expect(asked()).toEqual([0, 1]);
  });

  test.each([
    [[['models', '["openai/stt-1"']], 400, 'models'],
    [[['models', '[1]']], 400, 'models[0]'],
    [[['provider', 'siliconflow']], 400, 'provider'],
    [[['provider[order]', 'siliconflow']], 400, 'provider.order'],
    [[['provider', '{"only":["nobody"]}']], 404, 'provider'],
    [[['route', 'somewhere']], 400, 'route'],
  ] as const)('refuses %j, and logs the model all the same', async (fields, code, param) => {
    const reply = await transcribe([['model', 'openai/stt-1'], ...fields]);
    await audio.expectRefusal(reply, code, param);
    const { requestedModel } = await audio.gateway.record(reply.requestId);
    expect(requestedModel).toBe('openai/stt-1');
  });

  test('and speech, which is JSON, choose alike', async () => {
    audio.siliconflow.script('FunAudioLLM/CosyVoice2-0.5B', speech());
    const provider = { only: ['siliconflow'] };
    const reply = await audio.speak({
      model: 'openai/tts-1',
      input: 'Hi',
      voice: 'alloy',
      provider,
    });
    expect([reply.status, asked()]).toEqual([200, [0, 1]]);
  });
});

describe('an image edit', () => {
  beforeAll(startImageRig);
  afterAll(stopImageRig);
  afterEach(() => upstream.reset());

  test('goes where the form says', async () => {
    upstream.script('good-image', images());
    imageOf(await edit({ model: 'test/spare', provider: '{"only":["second"]}' }));
    expect(upstream.book.map(({ path }) => path)).toEqual(['/second/v1/images/edits']);
    expect(form().fields).toEqual({ model: ['good-image'], prompt: ['make it green'] });
  });

  test('goes along a chain of models', async () => {
    upstream.script('gpt-image', json(400, { error: { message: 'Not this one.' } }));
    upstream.script('flat-image', images());
    const reply = await edit({ models: '["test/image","test/flat"]', route: 'fallback' });
    imageOf(reply);
    expect([reply.json.model, upstream.book.length]).toEqual(['test/flat', 2]);
  });

  test.each([
    [{ provider: 'second' }, 400],
    [{ 'provider[only][]': 'nobody' }, 404],
    [{ route: 'somewhere' }, 400],
  ])(
    'refuses %j, and logs the model all the same',
    async (fields: Record<string, string>, code) => {
      const reply = await edit({ model: 'test/spare', ...fields });
      expect([reply.status, reply.error.code]).toEqual([code, 'invalid_request_error']);
      expect(upstream.book).toHaveLength(0);
      expect((await gateway.record(reply.requestId)).requestedModel).toBe('test/spare');
    },
  );
});
