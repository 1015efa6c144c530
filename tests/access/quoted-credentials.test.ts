/** Provider errors that quote credentials of others. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const otherProvidersKey = 'other-provider-0a1b2c3d4e5f';
const otherTenantsKey = 'other-tenant-0a1b2c3d4e5f';
const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  gateway = await InProcessGateway.start({
    providers: {
      vendor: { ...base, api_key: 'vendor-0a1b2c3d4e5f' },
      other: { ...base, api_key: otherProvidersKey },
    },
    models: [chatModel('test/chat', [{ provider: 'vendor', model: 'chat' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

const messages = [{ role: 'user', content: 'Hi.' }];

test('an error never shows the key of another provider or tenant', async () => {
  const owner = await gateway.makeTenant({ id: 'owner', name: 'Owner' }, { management: true });
  const saved = await fetch(`${gateway.url}/api/v1/byok/vendor`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner}` },
    body: JSON.stringify({ api_key: otherTenantsKey }),
  });
  expect(saved.status).toBe(200);
  const message = `Neither ${otherProvidersKey} nor ${otherTenantsKey} may use this field.`;
  for (const status of [400, 500]) {
    upstream.script('chat', json(status, { error: { message } }));
    const { error, requestId } = await gateway.post({ model: 'test/chat', messages });
    expect(error.message).toContain('Neither [key] nor [key] may use this field.');
    const record = JSON.stringify(await gateway.record(requestId));
    expect(record).not.toMatch(/0a1b2c3d4e5f/);
  }
});
