/**
 * A proxy that blocks `/admin` and `/metrics` compares paths as they are sent. Other spellings of
 * these paths must not reach them.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { within } from '../support/wait-until.ts';

const startMs = 120_000;

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

/** Sends a path unchanged, with the admin token, and returns the status. */
async function statusOf(path: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const { hostname, port } = new URL(gateway.url);
  let received = '';
  const socket = connect(Number(port), hostname);
  socket.on('data', (bytes) => {
    received += bytes;
  });
  socket.on('close', () => resolve(received));
  socket.on('error', reject);
  const authorization = `Authorization: Bearer ${gateway.keys.admin}`;
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n${authorization}\r\nConnection: close\r\n\r\n`);
  return Number((await within(promise, `the answer to ${path}`)).split(' ')[1]);
}

test.each(['/admin/v1/tenants', '/admin/v1/tenants?offset=0', '/metrics'])(
  'the gateway serves %s',
  async (path) => {
    expect(await statusOf(path)).toBe(200);
  },
);

test.each([
  '/v1/../admin/v1/tenants',
  '/./admin/v1/tenants',
  '/v1/%2e%2e/admin/v1/tenants',
  String.raw`/v1\..\admin/v1/tenants`,
  '//admin/v1/tenants',
  '/%61dmin/v1/tenants',
  '/admin//v1/tenants',
  '/admin/v1/tenants/',
  '/v1/../metrics',
  '//metrics',
  '/metrics/',
])('the gateway does not serve the spelling %s', async (path) => {
  expect(await statusOf(path)).toBe(404);
});
