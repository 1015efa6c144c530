/**
 * Fields that nobody here knows go on to upstreams. Some of those would be acted upon with the
 * rights of the operator: they lead to what others keep, into a network, or past the price.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { wavFile } from '../support/audio-files.ts';
import { type ByokTenant, makeByokTenant } from '../support/byok.ts';
import {
  images,
  chatAnswer,
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
  await owner.bring('server', { api_key: 'k-own' });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('voice-up', speech());
  upstream.script('ears-up', transcription('heard', 1));
  upstream.script('painter-up', images());
  upstream.script('*', chatAnswer('Yes.'));
});

const hi = [{ role: 'user', content: 'Hi' }];

/** What the upstream was asked. */
function asked(): Readonly<Record<string, unknown>> {
  const body = upstream.requests.at(-1)?.json;
  return isObject(body) ? body : {};
}

describe('words between the machines of an inference server', () => {
  const words: Readonly<Record<string, unknown>> = {
    kv_transfer_params: { do_remote_prefill: true, remote_host: '10.0.0.5', remote_port: 5600 },
    bootstrap_host: '10.0.0.5',
    disaggregated_params: { ctx_info_endpoint: '10.0.0.5:1' },
    session_params: { id: 'of-another-tenant' },
    n_predict: 100_000,
    priority: -100,
    adapter_source: 's3',
  };

  test.each(['acme/chat', 'acme/free'])('are left out and named at %s', async (model) => {
    const reply = await gateway.post({ model, messages: hi, max_tokens: 1, ...words });
    expect(reply.status).toBe(200);
    expect(Object.keys(asked()).filter((name) => name in words)).toEqual([]);
    const told = reply.headers.get('x-tollgate-dropped-params')?.split(', ') ?? [];
    expect(told.toSorted()).toEqual(Object.keys(words).toSorted());
  });

  test('are so too where the answer is no chat', async () => {
    const body = { model: 'acme/voice', input: 'Hi', voice: 'alloy', ...words };
    const path = '/v1/audio/speech';
    const spoken = await gateway.fetch(body, { path });
    expect(Object.keys(asked())).toEqual(['model', 'input', 'voice', 'response_format']);
    const told = spoken.headers.get('x-tollgate-dropped-params')?.split(', ');
    expect(told).toEqual(Object.keys(words));
    await gateway.fetch(body, { path, key: owner.key });
    expect(asked()).toMatchObject(words);
  });

  test('are not said by whoever takes them back', async () => {
    const twice = '"priority":-100,"priority":null';
    const body = `{"model":"acme/chat","messages":${JSON.stringify(hi)},${twice}}`;
    const reply = await gateway.post(body);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
    expect(Buffer.from(upstream.requests[0]?.raw ?? []).toString()).not.toContain('priority');
  });

  test('reach a server of the tenant’s own', async () => {
    await owner.chat(words);
    expect(upstream.requests[0]?.headers.authorization).toBe('Bearer k-own');
    expect(asked()).toMatchObject(words);
  });
});

test('names of kept prompts are each tenant’s own', async () => {
  const names = { prompt_cache_isolation_key: 'case', extra_key: 'case' };
  await gateway.post({ model: 'acme/chat', messages: hi, ...names });
  await gateway.post({ model: 'acme/chat', messages: hi, ...names }, { key: owner.key });
  for (const name of Object.keys(names)) {
    const sent = upstream.requests.map(({ json }) => (isObject(json) ? json[name] : undefined));
    expect(sent).toEqual(Array(2).fill(expect.stringMatching(/^[\w-]{43}$/)));
    expect(new Set(sent).size).toBe(2);
  }
});

describe('what stands beside the words of a known part', () => {
  const inParts = (part: object) => [
    { role: 'user', content: [{ type: 'text', text: 'Hi' }, part] },
  ];

  test('is looked at like any other address', async () => {
    const part = { type: 'text', text: 'x', video_url: { url: 'http://169.254.169.254/' } };
    const reply = await gateway.post({ model: 'acme/chat', messages: inParts(part) });
    expect([reply.status, reply.error.param, upstream.requests]).toEqual([
      400,
      'messages[0].content[1].video_url.url',
      [],
    ]);
  });

  test('is any word that leads nowhere', async () => {
    const part = { type: 'text', text: 'x', cache_control: { type: 'ephemeral' }, note: 'http:' };
    expect((await gateway.post({ model: 'acme/chat', messages: inParts(part) })).status).toBe(200);
    expect(asked().messages).toEqual(inParts(part));
  });

  test('names nothing in a cache that all tenants share', async () => {
    const image_url = { url: 'https://pictures.example/cat.png' };
    const part = { type: 'image_url', image_url, uuid: 'logo' };
    await gateway.post({ model: 'acme/chat', messages: inParts(part) });
    expect(asked().messages).toEqual(inParts({ type: 'image_url', image_url }));
    await owner.chat({ messages: inParts(part) });
    expect(asked().messages).toEqual(inParts(part));
  });
});

describe('a name that is one of ours but for capitals stays out of', () => {
  test('speech, which is charged by its text', async () => {
    const body = { model: 'acme/voice', input: 'Hi', voice: 'alloy', Input: 'long '.repeat(500) };
    await gateway.fetch({ ...body, Model: 'dearer' }, { path: '/v1/audio/speech' });
    expect(Object.keys(asked())).toEqual(['model', 'input', 'voice', 'response_format']);
  });

  test('pictures, which are charged one by one', async () => {
    const body = { model: 'acme/painter', prompt: 'A cat', Model: 'dearer' };
    const path = '/v1/images/generations';
    expect((await gateway.post(body, { path })).status).toBe(200);
    expect(Object.keys(asked())).toEqual(['model', 'prompt']);
    for (const name of ['N', 'Num_Images']) {
      const several = await gateway.post({ ...body, [name]: 10 }, { path });
      expect([several.status, several.error.message]).toEqual([
        400,
        `${name} is 10, but a request generates one image.`,
      ]);
    }
    expect(upstream.requests.length).toBe(1);
  });
});

describe('a transcript is made of the file that was sent, and not of', () => {
  test.each(['file_id', 'file_url', 'url'])('%s', async (name) => {
    const form = new FormData();
    form.append('model', 'acme/ears');
    form.append('file', new File([wavFile(1) as Uint8Array<ArrayBuffer>], 'talk.wav'));
    form.append(name, name === 'file_id' ? 'file-of-another' : 'https://long.example/talk.mp3');
    const headers = { authorization: `Bearer ${gateway.keys.routing}` };
    const init = { method: 'POST', headers, body: form };
    const reply = await readReply(await fetch(`${gateway.url}/v1/audio/transcriptions`, init));
    expect([reply.status, reply.error.param, upstream.requests.length]).toEqual([400, name, 0]);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});
