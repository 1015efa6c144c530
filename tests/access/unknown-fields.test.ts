/**
 * Unknown fields are forwarded to providers, except fields that would use the operator's rights to
 * reach other tenants' data, a private network, or features that cost extra.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { wavFile } from '../support/audio-files.ts';
import { type ByokTenant, makeByokTenant } from '../support/byok.ts';
import {
  chatAnswer,
  images,
  speech,
  startFakeUpstream,
  transcription,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, readReply } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let owner: ByokTenant;

beforeAll(async () => {
  const server = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'k-op' };
  const media = (name: string, feature: string, pricing: object) => ({
    ...{ id: `acme/${name}`, name, features: [feature] },
    ...{ input_modalities: ['text'], output_modalities: ['audio'] },
    endpoints: [{ provider: 'server', model: `${name}-up`, pricing }],
  });
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { server, free: { ...server, quirks: { separately_priced: 'keep' } } },
    models: [
      chatModel('acme/chat', [{ provider: 'server', model: 'chat-up' }]),
      chatModel('acme/free', [{ provider: 'free', model: 'free-up' }]),
      media('voice', 'speech', { characters: '15' }),
      media('ears', 'transcription', { minute: '0.006' }),
      media('painter', 'image_generation', { output_image: '0.04' }),
    ],
  });
  owner = await makeByokTenant(gateway, 'owner');
  await owner.setProviderKey('server', { api_key: 'k-own' });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('voice-up', speech());
  upstream.script('ears-up', transcription('Hello', 1));
  upstream.script('painter-up', images());
  upstream.script('*', chatAnswer('Yes.'));
});

const hi = [{ role: 'user', content: 'Hi' }];

/** Returns the last request body that the provider received. */
function lastBody(): Readonly<Record<string, unknown>> {
  const body = upstream.requests.at(-1)?.json;
  return isObject(body) ? body : {};
}

describe('internal fields of inference servers', () => {
  const internalFields: Readonly<Record<string, unknown>> = {
    kv_transfer_params: { do_remote_prefill: true, remote_host: '10.0.0.5', remote_port: 5600 },
    bootstrap_host: '10.0.0.5',
    disaggregated_params: { ctx_info_endpoint: '10.0.0.5:1' },
    session_params: { id: 'of-another-tenant' },
    n_predict: 100_000,
    priority: -100,
    adapter_source: 's3',
  };

  test.each(['acme/chat', 'acme/free'])('are dropped and reported for %s', async (model) => {
    const reply = await gateway.post({ model, messages: hi, max_tokens: 1, ...internalFields });
    expect(reply.status).toBe(200);
    expect(Object.keys(lastBody()).filter((name) => name in internalFields)).toEqual([]);
    const dropped = reply.headers.get('x-tollgate-dropped-params')?.split(', ') ?? [];
    expect(dropped.toSorted()).toEqual(Object.keys(internalFields).toSorted());
  });

  test('are dropped and reported for speech', async () => {
    const body = { model: 'acme/voice', input: 'Hi', voice: 'alloy', ...internalFields };
    const path = '/v1/audio/speech';
    const response = await gateway.fetch(body, { path });
    expect(Object.keys(lastBody())).toEqual(['model', 'input', 'voice', 'response_format']);
    const dropped = response.headers.get('x-tollgate-dropped-params')?.split(', ');
    expect(dropped).toEqual(Object.keys(internalFields));
    await gateway.fetch(body, { path, key: owner.key });
    expect(lastBody()).toMatchObject(internalFields);
  });

  test('are not reported if a later duplicate is null', async () => {
    const twice = '"priority":-100,"priority":null';
    const body = `{"model":"acme/chat","messages":${JSON.stringify(hi)},${twice}}`;
    const reply = await gateway.post(body);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
    expect(Buffer.from(upstream.requests[0]?.raw ?? []).toString()).not.toContain('priority');
  });

  test("are forwarded with the tenant's own provider key", async () => {
    await owner.chat(internalFields);
    expect(upstream.requests[0]?.headers.authorization).toBe('Bearer k-own');
    expect(lastBody()).toMatchObject(internalFields);
  });
});

test('prompt cache names are scoped to the tenant', async () => {
  const names = { prompt_cache_isolation_key: 'case', extra_key: 'case' };
  await gateway.post({ model: 'acme/chat', messages: hi, ...names });
  await gateway.post({ model: 'acme/chat', messages: hi, ...names }, { key: owner.key });
  for (const name of Object.keys(names)) {
    const sent = upstream.requests.map(({ json }) => (isObject(json) ? json[name] : undefined));
    expect(sent).toEqual(Array(2).fill(expect.stringMatching(/^[\w-]{43}$/)));
    expect(new Set(sent).size).toBe(2);
  }
});

describe('unknown fields of content parts', () => {
  const inParts = (part: object) => [
    { role: 'user', content: [{ type: 'text', text: 'Hi' }, part] },
  ];

  test('are checked for private URLs', async () => {
    const part = { type: 'text', text: 'x', video_url: { url: 'http://169.254.169.254/' } };
    const reply = await gateway.post({ model: 'acme/chat', messages: inParts(part) });
    expect([reply.status, reply.error.param, upstream.requests]).toEqual([
      400,
      'messages[0].content[1].video_url.url',
      [],
    ]);
  });

  test('are forwarded if they contain no URL', async () => {
    const part = { type: 'text', text: 'x', cache_control: { type: 'ephemeral' }, note: 'http:' };
    expect((await gateway.post({ model: 'acme/chat', messages: inParts(part) })).status).toBe(200);
    expect(lastBody().messages).toEqual(inParts(part));
  });

  test('are dropped if they would name an entry in a cache shared by all tenants', async () => {
    const image_url = { url: 'https://images.example/cat.png' };
    const part = { type: 'image_url', image_url, uuid: 'logo' };
    await gateway.post({ model: 'acme/chat', messages: inParts(part) });
    expect(lastBody().messages).toEqual(inParts({ type: 'image_url', image_url }));
    await owner.chat({ messages: inParts(part) });
    expect(lastBody().messages).toEqual(inParts(part));
  });
});

test.each([1, 300_000])('a doubled nested field after %s characters is sent once', async (size) => {
  const text = JSON.stringify({ type: 'text', text: 'x'.repeat(size) });
  const url = '"url":"http://169.254.169.254/","url":"https://images.example/cat.png"';
  const content = `[${text},{"type":"image_url","image_url":{${url}}}]`;
  const messages = `[{"role":"user","content":${content}}]`;
  const reply = await gateway.post(`{"model":"acme/chat","messages":${messages}}`);
  expect(reply.status).toBe(200);
  const sent = Buffer.from(upstream.requests[0]?.raw ?? []).toString();
  expect(sent.match(/https?:[^"]+/g)).toEqual(['https://images.example/cat.png']);
});

describe('a known field name with different capitalization', () => {
  test('is dropped from speech requests, which are charged by their text', async () => {
    const body = { model: 'acme/voice', input: 'Hi', voice: 'alloy', Input: 'long '.repeat(500) };
    await gateway.fetch({ ...body, Model: 'pricier' }, { path: '/v1/audio/speech' });
    expect(Object.keys(lastBody())).toEqual(['model', 'input', 'voice', 'response_format']);
  });

  test('is dropped from or rejected in image requests, which are charged per image', async () => {
    const body = { model: 'acme/painter', prompt: 'A cat', Model: 'pricier' };
    const path = '/v1/images/generations';
    expect((await gateway.post(body, { path })).status).toBe(200);
    expect(Object.keys(lastBody())).toEqual(['model', 'prompt']);
    for (const name of ['N', 'Num_Images']) {
      const several = await gateway.post({ ...body, [name]: 10 }, { path });
      expect([several.status, several.error.message]).toEqual([
        400,
        `${name} is 10, but each request can generate only one image.`,
      ]);
    }
    expect(upstream.requests.length).toBe(1);
  });
});

describe('a transcription request', () => {
  test.each(['file_id', 'file_url', 'url'])(
    'is rejected if it references another file with %s',
    async (name) => {
      const form = new FormData();
      form.append('model', 'acme/ears');
      form.append('file', new File([wavFile(1) as Uint8Array<ArrayBuffer>], 'talk.wav'));
      form.append(name, name === 'file_id' ? 'file-of-another' : 'https://long.example/talk.mp3');
      const headers = { authorization: `Bearer ${gateway.keys.routing}` };
      const init = { method: 'POST', headers, body: form };
      const reply = await readReply(await fetch(`${gateway.url}/v1/audio/transcriptions`, init));
      expect([reply.status, reply.error.param, upstream.requests.length]).toEqual([400, name, 0]);
      expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
    },
  );
});
