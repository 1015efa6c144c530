/** URLs whose name server never responds. They must not delay anybody else. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { opaquePng } from '../support/images.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { type NameServer, startNameServer } from '../support/name-server.ts';
import { waitUntil } from '../support/wait-until.ts';

const imageHost = '127.0.0.2';
const upstream = startFakeUpstream();
const images = Bun.serve({
  hostname: imageHost,
  port: 0,
  fetch: () => new Response(opaquePng(3, 2), { headers: { 'content-type': 'image/png' } }),
});
let gateway: InProcessGateway;
let nameServer: NameServer;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    demo: true,
    private_addresses: [imageHost],
    providers: {
      vendor: {
        dialect: 'openai',
        base_url: `${upstream.url}/v1`,
        api_key: 'key',
        byok_base_url: true,
        quirks: { remote_images: 'inline' },
      },
    },
    models: [chatModel('test/chat', [{ provider: 'vendor', model: 'chat' }])],
  });
  nameServer = await startNameServer({ 'images.example': imageHost });
});
afterAll(async () => {
  nameServer.stop();
  await images.stop(true);
  await gateway.stop();
  await upstream.stop();
});

const chatWithImages = (...urls: readonly string[]) => ({
  model: 'test/chat',
  messages: [
    { role: 'user', content: urls.map((url) => ({ type: 'image_url', image_url: { url } })) },
  ],
});

/** Returns a request with this many images, each on a host whose name server is silent. */
const chatWithSilentHosts = (name: string, count: number) =>
  chatWithImages(...Array.from({ length: count }, (_, n) => `http://${name}-${n}.example/`));

/** Waits until the name server has received queries for this many silent names. */
async function queried(count: number): Promise<void> {
  const silent = () => new Set(nameServer.queries.filter((name) => !name.startsWith('images')));
  await waitUntil(() => silent().size >= count);
}

test('silent name servers delay neither other tenants nor file writes', async () => {
  const neighbor = await gateway.makeTenant({ id: 'neighbor', name: 'Neighbor' });
  const balance = await gateway.balance();
  const client = new AbortController();
  const { signal } = client;
  const job = { model: 'demo/speech', voice: 'alloy', input: 'Hi.' };
  const ended: number[] = [];
  const pending = [
    ...['a', 'b', 'c'].map((name) => gateway.fetch(chatWithSilentHosts(name, 16), { signal })),
    gateway.fetch({ ...job, webhook_url: 'http://hook.example/' }, { path: '/v1/jobs', signal }),
    fetch(`${gateway.url}/api/v1/byok/vendor`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${gateway.keys.management}` },
      body: JSON.stringify({ api_key: 'own', base_url: 'http://models.example/v1' }),
      signal,
    }),
  ].map((request) => request.then(({ status }) => ended.push(status)));
  await queried(50);

  await writeFile(join(gateway.folder, 'bystander'), 'written');
  upstream.script('chat', chatAnswer('A cat.'));
  const url = `http://images.example:${images.port}/cat.png`;
  const seen = await gateway.post(chatWithImages(url), { key: neighbor });
  expect(seen).toMatchObject({ status: 200, text: expect.stringContaining('A cat.') });
  // 50 of the 64 lookups that one tenant may run are taken.
  const { status, error, headers } = await gateway.post(chatWithSilentHosts('d', 15));
  expect(status).toBe(503);
  expect(error.message).toBe('The gateway is resolving too many host names. Try again shortly.');
  expect(headers.get('retry-after')).toBe('5');
  expect(ended).toEqual([]);

  client.abort();
  await Promise.allSettled(pending);
  expect(await gateway.balance()).toBe(balance);
});
