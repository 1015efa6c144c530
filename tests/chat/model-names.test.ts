import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { wavFile } from '../support/audio-files.ts';
import { startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply, readReply } from '../support/in-process.ts';

// Model names as OpenAI's and Anthropic's clients have them: without the brand of an alias.

const upstream = startFakeUpstream();
const anthropic = startFakeUpstream();
let gateway: InProcessGateway;

const settings = () => ({
  demo: true,
  providers: {
    north: { dialect: 'openai', base_url: `${upstream.url}/v1` },
    south: { dialect: 'openai', base_url: `${upstream.url}/v1` },
    keyless: { dialect: 'openai', base_url: `${upstream.url}/v1`, shared: false },
    claude: { dialect: 'anthropic', base_url: `${anthropic.url}/v1` },
  },
  models: [
    chatModel('acme/Model-5-mini', [{ provider: 'north', model: 'mini' }]),
    chatModel('acme/twin', [{ provider: 'north', model: 'twin-north' }]),
    chatModel('zeta/twin', [{ provider: 'south', model: 'twin-south' }]),
    chatModel('acme/half', [{ provider: 'keyless', model: 'half-keyless' }]),
    chatModel('zeta/half', [{ provider: 'south', model: 'half-south' }]),
    chatModel('anthropic/claude-nova-4-5', [{ provider: 'claude', model: 'nova' }]),
  ],
});

beforeAll(async () => {
  gateway = await InProcessGateway.start(settings());
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
  anthropic.stop();
});

const messages = [{ role: 'user', content: 'hi' }];
const chat = (model: string, more: object = {}) => gateway.post({ model, messages, ...more });

function formOf(fields: Record<string, string | File>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return form;
}

async function postForm(path: string, fields: Record<string, string | File>): Promise<Reply> {
  const headers = { authorization: `Bearer ${gateway.keys.routing}` };
  const body = formOf(fields);
  return readReply(await fetch(gateway.url + path, { method: 'POST', headers, body }));
}

describe('a model name without its brand', () => {
  const sound = new File([wavFile(1).slice()], 'a.wav');
  const post = (path: string, body: object) => () => gateway.post(body, { path });
  test.each<[path: string, alias: string, send: () => Promise<Reply>]>([
    ['chat', 'demo/chat', () => chat('chat')],
    ['chat with models', 'demo/chat', () => gateway.post({ models: ['chat'], messages })],
    [
      'messages',
      'demo/chat',
      post('/v1/anthropic/messages', { model: 'CHAT', messages, max_tokens: 9 }),
    ],
    ['responses', 'demo/chat', post('/v1/responses', { model: 'chat', input: 'hi' })],
    ['embeddings', 'demo/embed', post('/v1/embeddings', { model: 'embed', input: 'hi' })],
    ['images', 'demo/image', post('/v1/images/generations', { model: 'image', prompt: 'a' })],
    [
      'speech',
      'demo/speech',
      post('/v1/audio/speech', { model: 'speech', input: 'hi', voice: 'nova' }),
    ],
    [
      'transcription',
      'demo/transcribe',
      () => postForm('/v1/audio/transcriptions', { model: 'transcribe', file: sound }),
    ],
  ])('is resolved for %s and logged as %s', async (_, alias, send) => {
    const reply = await send();
    expect([reply.status, reply.status === 200 ? '' : reply.text]).toEqual([200, '']);
    if ('model' in reply.json) expect(reply.json.model).toBe(alias);
    const { requestedModel, model } = await gateway.record(reply.requestId);
    expect({ requestedModel, model }).toEqual({ requestedModel: alias, model: alias });
  });

  test('is resolved for jobs', async () => {
    const speech = { model: 'speech', input: 'hi', voice: 'nova' };
    const spoken = await gateway.post(speech, { path: '/v1/jobs' });
    expect([spoken.status, spoken.json.model]).toEqual([202, 'demo/speech']);
    const sound = new File([wavFile(1).slice()], 'a.wav');
    const heard = await postForm('/v1/jobs', { model: 'transcribe', file: sound });
    expect([heard.status, heard.json.model]).toEqual([202, 'demo/transcribe']);
  });

  test('is resolved for token counts, which the provider then counts', async () => {
    const body = { model: 'claude-nova-4-5', messages };
    const path = '/v1/messages/count_tokens';
    expect((await gateway.post(body, { path })).status).toBe(200);
    expect(anthropic.requests.map(({ model }) => model)).toEqual(['nova']);
  });

  test('is resolved by GET /v1/models/{id}', async () => {
    const { status, json } = await gateway.get('/v1/models/model-5-mini');
    expect([status, json.id]).toEqual([200, 'acme/Model-5-mini']);
  });

  test('is answered with the alias in every chunk of a stream', async () => {
    const { chunks } = await gateway.stream({ model: 'model-5-mini', messages });
    const models = chunks.map(({ model }) => model);
    expect(new Set(models)).toEqual(new Set(['acme/Model-5-mini']));
  });

  test('shares its cached answer with the alias', async () => {
    const first = await chat('MODEL-5-MINI', { temperature: 0 });
    const second = await chat('acme/Model-5-mini', { temperature: 0 });
    expect(first.headers.get('x-cache')).toBe('MISS');
    expect(second.headers.get('x-cache')).toBe('HIT');
  });

  test("obeys the key's model list by the alias", async () => {
    const allowed = await gateway.makeKey({ models: ['acme/*'] });
    const forbidden = await gateway.makeKey({ models: ['demo/chat'] });
    const body = { model: 'model-5-mini', messages };
    expect((await gateway.post(body, { key: allowed })).status).toBe(200);
    const { status, error } = await gateway.post(body, { key: forbidden });
    expect([status, error.message]).toEqual([
      403,
      'This API key may not use the model "acme/Model-5-mini".',
    ]);
    const shown = await gateway.get('/v1/models/model-5-mini', { key: forbidden });
    expect(shown.status).toBe(404);
  });

  test('counts once in a list that also has its alias', async () => {
    upstream.reset();
    upstream.script('mini', status500());
    await gateway.post({ models: ['model-5-mini', 'acme/Model-5-mini'], messages });
    expect(upstream.requests).toHaveLength(1);
  });

  test('is logged as its alias if the rest of the body is invalid', async () => {
    const { status, requestId } = await chat('model-5-mini', { temperature: 'hot' });
    expect(status).toBe(400);
    expect((await gateway.record(requestId)).requestedModel).toBe('acme/Model-5-mini');
  });
});

describe('a model name that several aliases have', () => {
  test('means the first one that the key can call', async () => {
    expect((await chat('twin')).json.model).toBe('acme/twin');
    // No provider of acme/half is configured.
    expect((await chat('half')).json.model).toBe('zeta/half');
    const key = await gateway.makeKey({ models: ['zeta/*'] });
    expect((await gateway.post({ model: 'twin', messages }, { key })).json.model).toBe('zeta/twin');
  });

  test('gets 400 with these aliases if the operator chose so', async () => {
    upstream.reset();
    const strict = await InProcessGateway.start({
      ...settings(),
      ambiguous_model_names: 'reject',
    });
    try {
      const { status, error, requestId } = await strict.post({ model: 'Twin', messages });
      expect([status, error.param, error.message]).toEqual([
        400,
        'model',
        'The model name "Twin" is ambiguous. Use one of these: "acme/twin", "zeta/twin".',
      ]);
      expect((await strict.record(requestId)).status).toBe('error');
      expect(upstream.requests).toEqual([]);
      expect((await strict.post({ model: 'half', messages })).json.model).toBe('zeta/half');
      const shown = await strict.get('/v1/models/twin');
      expect([shown.status, shown.error.param]).toEqual([400, 'model']);
    } finally {
      await strict.stop();
    }
  });
});
