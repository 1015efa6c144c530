/** Reads and management calls use no credits, so each tenant has a limit for them. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { InProcessGateway } from '../support/in-process.ts';

let gateway: InProcessGateway;
beforeAll(async () => {
  gateway = await InProcessGateway.start({
    demo: true,
    // Allows 1 read at once, and the next one after 30 seconds.
    limits: { reads_per_minute: 2 },
    providers: {},
    models: [],
  });
});
afterAll(() => gateway.stop());

test("a tenant's reads and management calls share a limit that its model calls don't use", async () => {
  const chat = { model: 'demo/chat', messages: [{ role: 'user', content: 'hi' }] };
  for (let calls = 0; calls < 3; calls += 1) expect((await gateway.post(chat)).status).toBe(200);
  expect((await gateway.get('/v1/models')).status).toBe(200);
  expect((await gateway.get('/v1/models')).status).toBe(429);
  const rejected = await gateway.get('/api/v1/keys', { key: gateway.keys.management });
  expect(rejected.status).toBe(429);
  expect(rejected.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect(rejected.error.message).toBe(
    'This account is limited to 2 reads and management requests per minute. ' +
      'Send them more slowly.',
  );
  expect((await gateway.post(chat)).status).toBe(200);
});
