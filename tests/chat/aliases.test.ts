/** An operator's own names for models: requests, lists, keys, and explanations. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { type FakeUpstream, startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { waitUntil } from '../support/wait-until.ts';

let upstream: FakeUpstream;
let gateway: InProcessGateway;

beforeAll(async () => {
  upstream = startFakeUpstream();
  gateway = await InProcessGateway.start({
    providers: {
      north: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-operator' },
    },
    models: [
      ...['chat', 'small', 'vision', 'gpt-4o', 'old'].map((name) =>
        chatModel(`acme/${name}`, [{ provider: 'north', model: name }], {
          input_modalities: ['text', 'image'],
        }),
      ),
      chatModel('acme/say', [{ provider: 'north', model: 'say', pricing: { characters: '15' } }], {
        output_modalities: ['audio'],
        features: ['speech'],
        speech: { style: 'mapped', default_voice: 'alloy', input_characters_max: 100 },
      }),
    ],
    aliases: {
      fast: { description: 'Our default', models: ['acme/small', 'acme/chat'] },
      'claude-sonnet-4-5': { models: ['acme/chat'] },
      'gpt-4o': { models: [{ model: 'acme/vision', when: { images: true } }, 'acme/small'] },
      'team/beta': { models: [{ model: 'acme/small', when: { tag: 'beta' } }, 'acme/chat'] },
      private: { models: [{ model: 'acme/chat', when: { tenants: ['acme'] } }] },
      voice: { models: ['acme/say'] },
      'acme/old': { models: ['acme/chat'] },
    },
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messages = [{ role: 'user', content: 'Hello!' }];
const image = 'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=';
const withImage = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: image } }] }];

/** Returns the model that answered. */
async function answeredBy(body: object, options = {}): Promise<unknown> {
  const { status, json } = await gateway.post({ messages, ...body }, options);
  return status === 200 ? json.model : json.error;
}

describe('an alias', () => {
  test.each([
    ['fast', 'acme/small'],
    ['claude-sonnet-4-5', 'acme/chat'],
    ['gpt-4o', 'acme/small'],
    ['acme/gpt-4o', 'acme/gpt-4o'],
    ['acme/old', 'acme/chat'],
  ])('%s is answered by %s', async (model, answering) => {
    expect(await answeredBy({ model })).toBe(answering);
  });

  test('works for every client format', async () => {
    const asMessages = { model: 'claude-sonnet-4-5', messages, max_tokens: 9 };
    const { json } = await gateway.post(asMessages, { path: '/v1/messages' });
    expect(json.model).toBe('acme/chat');
    const asResponses = { model: 'claude-sonnet-4-5', input: 'Hello!' };
    const reply = await gateway.post(asResponses, { path: '/v1/responses' });
    expect(reply.json.model).toBe('acme/chat');
  });

  test('falls back to its next model', async () => {
    upstream.script('small', status500());
    expect(await answeredBy({ model: 'fast' })).toBe('acme/chat');
  });

  test('chooses the model by the content and the headers of the request', async () => {
    expect(await answeredBy({ model: 'gpt-4o', messages: withImage })).toBe('acme/vision');
    const tagged = { headers: { 'x-tollgate-tags': 'beta' } };
    expect(await answeredBy({ model: 'team/beta' }, tagged)).toBe('acme/small');
    expect(await answeredBy({ model: 'team/beta' })).toBe('acme/chat');
  });

  test('exists only for its tenants', async () => {
    const key = await gateway.makeTenant({ id: 'acme', name: 'Acme' });
    expect(await answeredBy({ model: 'private' }, { key })).toBe('acme/chat');
    expect(await answeredBy({ model: 'private' })).toMatchObject({ code: 404, param: 'model' });
  });

  test('is logged with the model that it stood for', async () => {
    const { headers } = await gateway.post({ model: 'fast', messages });
    const record = await gateway.record(headers.get('x-request-id') ?? '');
    expect([record.requestedModel, record.model]).toEqual(['acme/small', 'acme/small']);
  });
});

describe('a key whose allow-list has', () => {
  test('an alias may use its models only under that name', async () => {
    const key = await gateway.makeKey({ models: ['fast'] });
    expect(await answeredBy({ model: 'fast' }, { key })).toBe('acme/small');
    expect(await answeredBy({ model: 'acme/small' }, { key })).toMatchObject({ code: 403 });
  });

  test('an alias may run jobs under that name', async () => {
    const key = await gateway.makeKey({ models: ['voice'] });
    const speech = { model: 'voice', input: 'Hello!', voice: 'alloy' };
    const send = () => gateway.post(speech, { path: '/v1/jobs', key, headers: once });
    const once = { 'idempotency-key': 'one' };
    const { json } = await send();
    const ended = await waitUntil(async () => {
      const job = (await gateway.get(`/v1/jobs/${json.id}`, { key })).json;
      return job.completed_at === null ? undefined : job;
    });
    expect(ended).toMatchObject({ status: 'succeeded', model: 'acme/say', error: null });
    expect((await send()).json.id).toBe(json.id);
  });

  test('a model may use it through an alias', async () => {
    const key = await gateway.makeKey({ models: ['acme/chat'] });
    expect(await answeredBy({ model: 'fast' }, { key })).toBe('acme/chat');
    expect(await answeredBy({ model: 'gpt-4o' }, { key })).toMatchObject({ code: 403 });
  });
});

describe('GET /v1/models', () => {
  const listed = async (key?: string) => {
    const { json } = await gateway.get('/v1/models', key === undefined ? {} : { key });
    return (json.data as { id: string; description: string }[]).map(({ id }) => id);
  };

  test('lists the aliases that the key can use', async () => {
    expect(await listed()).toEqual([
      ...['acme/chat', 'acme/small', 'acme/vision', 'acme/gpt-4o', 'acme/say'],
      ...['fast', 'claude-sonnet-4-5', 'gpt-4o', 'team/beta', 'voice', 'acme/old'],
    ]);
    expect(await listed(await gateway.makeKey({ models: ['fast'] }))).toEqual(['fast']);
  });

  test('shows an alias with the properties of its first model', async () => {
    const { json } = await gateway.get('/v1/models/fast');
    const { json: model } = await gateway.get('/v1/models/acme/small');
    expect(json).toMatchObject({ id: 'fast', description: 'Our default', pricing: model.pricing });
  });
});

test('POST /v1/route/explain shows the models of an alias', async () => {
  const { json } = await gateway.post({ model: 'fast', messages }, { path: '/v1/route/explain' });
  expect(json.data).toMatchObject({
    models: ['acme/small', 'acme/chat'],
    plan: [{ model: 'acme/small' }, { model: 'acme/chat' }],
  });
});
