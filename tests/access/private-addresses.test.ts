/** The operator's list of private addresses that tenants may use. Reloads change the list. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { parseJson } from '../../src/core/json.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { opaquePng } from '../support/images.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 120_000;
const upstream = startFakeUpstream();
let gateway: Gateway;
let received: { readonly path: string; readonly body: string }[] = [];
const receiver = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    received.push({ path: new URL(request.url).pathname, body: await request.text() });
    return new Response(opaquePng(3, 2), { headers: { 'content-type': 'image/png' } });
  },
});
const receiverUrl = `http://127.0.0.1:${receiver.port}`;

const settings = (privateAddresses: readonly string[] = []) => ({
  catalogue: 'none',
  demo: true,
  private_addresses: privateAddresses,
  providers: {
    fake: {
      dialect: 'openai',
      base_url: `${upstream.url}/v1`,
      api_key: 'sk-of-the-operator',
      byok_base_url: true,
      quirks: { remote_images: 'inline' },
    },
  },
  models: [
    {
      ...{ id: 'test/chat', name: 'Chat', context_length: 128_000, max_completion_tokens: 16_384 },
      input_modalities: ['text', 'image'],
      output_modalities: ['text'],
      endpoints: [{ provider: 'fake', model: 'chat', pricing: { prompt: '1', completion: '1' } }],
    },
  ],
});

beforeAll(async () => {
  gateway = await startGateway({ config: settings() });
}, testMs);
beforeEach(() => {
  upstream.reset();
  received = [];
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
  await receiver.stop(true);
});

/** Writes the list to the configuration, sends SIGHUP, and waits for the reload. */
async function allow(...privateAddresses: readonly string[]): Promise<void> {
  const count = () => gateway.log().filter(({ event }) => event === 'config_reloaded').length;
  const before = count();
  writeFileSync(join(gateway.folder, 'tollgate.yaml'), stringify(settings(privateAddresses)));
  gateway.process.kill('SIGHUP');
  await waitUntil(() => count() !== before);
}

function newJob(webhookUrl: string) {
  const speech = { model: 'demo/speech', voice: 'alloy', input: 'Ready.', response_format: 'wav' };
  return gateway.call('POST', '/v1/jobs', {
    key: gateway.keys.api,
    body: { ...speech, webhook_url: webhookUrl },
  });
}

function chatWithImage(url: string) {
  const content = [
    { type: 'text', text: 'what is it' },
    { type: 'image_url', image_url: { url } },
  ];
  return gateway.chat({ model: 'test/chat', messages: [{ role: 'user', content }] });
}

const ownKey = (baseUrl: string) =>
  gateway.manage('PUT', '/api/v1/byok/fake', { api_key: 'sk-of-the-tenant', base_url: baseUrl });

test(
  'private addresses are rejected unless the operator lists them',
  async () => {
    expect((await newJob(`${receiverUrl}/hook`)).text).toContain('The address is not public.');
    expect((await chatWithImage(`${receiverUrl}/cat.png`)).text).toContain(
      'The address is not public.',
    );
    expect((await ownKey(`${receiverUrl}/v1`)).text).toContain('The address is not public.');

    await allow('127.0.0.1');
    const job = await newJob(`${receiverUrl}/hook`);
    expect(job.status).toBe(202);
    await waitUntil(() => received.length > 0);
    const message = parseJson(received[0]?.body ?? '');
    expect(received[0]?.path).toBe('/hook');
    expect(message).toMatchObject({ type: 'job.succeeded', data: { id: job.body.id } });

    expect((await chatWithImage(`${receiverUrl}/cat.png`)).status).toBe(200);
    expect(received[1]?.path).toBe('/cat.png');
    const [request] = upstream.requests;
    expect(JSON.stringify(request?.json)).toContain('data:image/png;base64,');

    await allow();
    expect((await newJob(`${receiverUrl}/hook`)).status).toBe(400);
    expect((await chatWithImage(`${receiverUrl}/cat.png`)).status).toBe(400);
    expect(received).toHaveLength(2);
  },
  testMs,
);

test(
  "a tenant's provider key can use a private base URL while it is listed",
  async () => {
    await allow('127.0.0.0/8');
    expect((await ownKey(`${upstream.url}/v1`)).status).toBe(200);
    const request = { model: 'test/chat', messages: [{ role: 'user', content: 'one two' }] };
    const withoutFallbacks = { ...request, provider: { allow_fallbacks: false } };
    expect((await gateway.chat(withoutFallbacks)).status).toBe(200);
    expect(upstream.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer sk-of-the-tenant',
    ]);
    await allow('10.0.0.0/8');
    expect((await gateway.chat(withoutFallbacks)).status).toBe(502);
    expect(upstream.requests).toHaveLength(1);
    await gateway.manage('DELETE', '/api/v1/byok/fake');
  },
  testMs,
);

test(
  "the gateway's own address and metadata services are always rejected",
  async () => {
    await allow('127.0.0.0/8', '::1', '10.0.0.0/8', 'localhost');
    const own = new URL(gateway.url).port;
    for (const url of [
      `http://127.0.0.1:${own}/admin/v1/tenants`,
      `http://localhost:${own}/admin/v1/tenants`,
      `http://[::1]:${own}/`,
      'http://169.254.169.254/latest/meta-data/',
      'http://metadata.google.internal/',
      'http://192.168.0.1/',
    ]) {
      expect({ url, status: (await newJob(url)).status }).toEqual({ url, status: 400 });
    }
    expect((await newJob(`http://localhost:${receiver.port}/hook`)).status).toBe(202);
  },
  testMs,
);
