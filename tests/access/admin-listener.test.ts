/** With `server.admin_port`, only a listener of its own serves the admin API and the metrics. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { freePort } from '../support/free-port.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const startMs = 120_000;
const adminPort = freePort();

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ env: { ADMIN_PORT: String(adminPort) } });
}, startMs);
afterAll(() => gateway.stop(), startMs);

async function send(origin: string, method: string, path: string, key: string) {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${origin}${path}`, { method, headers });
  return { status: response.status, text: await response.text() };
}

const adminUrl = `http://127.0.0.1:${adminPort}`;

test.each([
  ['GET', '/admin/v1/overview'],
  ['GET', '/admin/v1/tenants'],
  ['PATCH', '/admin/v1/tenants/default'],
  ['GET', '/metrics'],
])('only the admin listener serves %s %s', async (method, path) => {
  const { admin } = gateway.keys;
  expect((await send(adminUrl, method, path, admin)).status).toBe(200);
  const { status, text } = await send(gateway.url, method, path, admin);
  expect(status).toBe(404);
  expect(text).toContain(`Unknown route: ${method} ${path}.`);
  expect(text).not.toMatch(/Did you mean \w+ \/(admin|metrics)/);
});

test.each([
  ['GET', '/v1/models'],
  ['POST', '/v1/chat/completions'],
  ['GET', '/v1/customer/logs'],
])('the admin listener does not serve %s %s', async (method, path) => {
  expect((await send(adminUrl, method, path, gateway.keys.api)).status).toBe(404);
});

test.each(['/healthz', '/readyz', '/dashboard'])('both listeners serve %s', async (path) => {
  for (const origin of [gateway.url, adminUrl])
    expect((await send(origin, 'GET', path, '')).status).toBe(200);
});

test('the admin listener rejects a request without the admin token', async () => {
  const { api } = gateway.keys;
  expect((await send(adminUrl, 'GET', '/admin/v1/overview', api)).status).toBe(403);
});

test('startup names both addresses', () => {
  expect(gateway.output()).toContain(`Tollgate 0.1.0 is ready at ${gateway.url}\n`);
  expect(gateway.output()).toContain(`operator's dashboard: ${adminUrl}/dashboard\n`);
});

test('a gateway does not start if its admin port is in use', async () => {
  const { exitCode, stderr } = await gateway.command('serve', '--port', '0');
  expect(exitCode).toBe(1);
  expect(stderr).toContain(`Can't listen on 127.0.0.1:${adminPort}, as server.admin_port says:`);
});
