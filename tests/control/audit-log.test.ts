/** The audit log records every administrative act, by whom, and what it changed. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { parseCsv } from '../support/csv.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const secret = 'sk-own-0123456789abcdef';
beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: upstream.url, api_key: null };
  gateway = await InProcessGateway.start({ providers: { fake }, models: [] });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

async function send(method: string, path: string, body: object, key = gateway.keys.admin) {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(gateway.url + path, { method, headers, body: JSON.stringify(body) });
  return fieldsOf(fieldsOf(await response.json()).data);
}

async function read(query: string) {
  const { json, text } = await gateway.get(`/admin/v1/audit?${query}`, { key: gateway.keys.admin });
  return { entries: objectsIn(json.data), next: json.next_before, text };
}

test('records tenants, keys, provider keys, and credits with their states', async () => {
  await send('POST', '/admin/v1/tenants', { id: 'acme', name: 'Acme' });
  await send('PATCH', '/admin/v1/tenants/acme', { name: 'Acme 2' });
  await send('POST', '/admin/v1/tenants/acme/credits', { amount: 500, note: 'Invoice 1' });
  const { management } = gateway.keys;
  const key = await send('POST', '/api/v1/keys', { name: 'app' }, management);
  await send('PATCH', `/api/v1/keys/${key.id}`, { disabled: true }, management);
  await send('POST', `/api/v1/keys/${key.id}/rotate`, {}, management);
  await send('DELETE', `/api/v1/keys/${key.id}`, {}, management);
  await send('PUT', '/api/v1/byok/fake', { api_key: secret }, management);
  await send('DELETE', '/api/v1/byok/fake', {}, management);

  const { entries, text } = await read('limit=9');
  const manager = 'key_bootstrapmanage';
  expect(
    entries.map((entry) => [entry.action, entry.tenant_id, entry.target, entry.actor]),
  ).toEqual([
    ['provider_key.delete', 'default', 'fake', manager],
    ['provider_key.set', 'default', 'fake', manager],
    ['key.delete', 'default', key.id, manager],
    ['key.rotate', 'default', key.id, manager],
    ['key.update', 'default', key.id, manager],
    ['key.create', 'default', key.id, manager],
    ['credits.change', 'acme', 'acme', 'admin'],
    ['tenant.update', 'acme', 'acme', 'admin'],
    ['tenant.create', 'acme', 'acme', 'admin'],
  ]);
  expect(entries[7]).toMatchObject({ before: { name: 'Acme' }, after: { name: 'Acme 2' } });
  expect(entries[6]).toMatchObject({
    before: { balance: 0 },
    after: { balance: 500, amount: 500 },
  });
  expect(entries[4]).toMatchObject({ before: { disabled: 0 }, after: { disabled: 1 } });
  expect(entries[2]?.after).toBeNull();
  expect(entries[0]).toMatchObject({ origin: 'http', address: '127.0.0.1' });
  expect(text).not.toContain(secret);
  expect(text).not.toMatch(/hash|ciphertext/);
});

test('is filtered and read in pages', async () => {
  const { entries: all } = await read('limit=100');
  const { entries: first, next } = await read('limit=2');
  const { entries: second } = await read(`limit=2&before=${next}`);
  expect([...first, ...second]).toEqual(all.slice(0, 4));
  const { entries: keys } = await read('action=key.&actor=key_bootstrapmanage');
  expect(new Set(keys.map(({ action }) => action))).toEqual(
    new Set(['key.create', 'key.update', 'key.rotate', 'key.delete']),
  );
  const { entries: acme } = await read('tenant_id=acme&action=tenant.create');
  expect(acme.map(({ target }) => target)).toEqual(['acme']);
  expect((await read('end_date=2020-01-01')).entries).toEqual([]);
});

test('is downloaded as CSV', async () => {
  const path = '/admin/v1/audit/export.csv?tenant_id=acme';
  const { text } = await gateway.get(path, { key: gateway.keys.admin });
  const [header = [], ...rows] = parseCsv(text);
  expect(rows.map((row) => row[header.indexOf('action')])).toEqual([
    'credits.change',
    'tenant.update',
    'tenant.create',
  ]);
  expect(JSON.parse(rows[1]?.[header.indexOf('after')] ?? '')).toMatchObject({ name: 'Acme 2' });
});
