/** Management calls and failed sign-ins are written to the log as `audit` events. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { parseJson } from '../../src/core/json.ts';
import { ManagementServer } from '../support/management-server.ts';

let rig: ManagementServer;
let keys: { manager: string; app: string };
beforeAll(async () => {
  rig = await ManagementServer.start();
  keys = await rig.addTenant('acme');
});
afterAll(() => rig.stop());

const idOf = (key: string) => `key_${key.split('-')[2]}`;

/** Runs a call and returns its audit events. */
async function eventsOf(call: ReturnType<ManagementServer['call']>) {
  const answer = await call;
  const lines = rig.logged.splice(0).map((line) => parseJson(line));
  return { answer, events: lines.filter((line) => Object(line).event === 'audit') };
}

const from = { address: '127.0.0.1', request_id: expect.stringMatching(/^[0-9a-f-]{36}$/) };

test('every change of a key names the manager, the key, and the address', async () => {
  const actor = idOf(keys.manager);
  const by = { key: keys.manager };
  const created = await eventsOf(rig.call('POST', '/api/v1/keys', { ...by, body: { name: 'x' } }));
  const target = String(created.answer.data.id);
  const path = `/api/v1/keys/${target}`;
  const event = { level: 'info', actor, tenant: 'acme', target, ...from };
  expect(created.events).toEqual([expect.objectContaining({ ...event, action: 'key.create' })]);
  const { requestId } = { requestId: created.answer.headers.get('x-request-id') };
  expect(created.events).toEqual([expect.objectContaining({ request_id: requestId })]);
  const changed = await eventsOf(rig.call('PATCH', path, { ...by, body: { disabled: true } }));
  expect(changed.events).toEqual([
    expect.objectContaining({ ...event, action: 'key.update', fields: 'disabled' }),
  ]);
  const rotated = await eventsOf(rig.call('POST', `${path}/rotate`, by));
  expect(rotated.events).toEqual([expect.objectContaining({ ...event, action: 'key.rotate' })]);
  const deleted = await eventsOf(rig.call('DELETE', path, by));
  expect(deleted.events).toEqual([expect.objectContaining({ ...event, action: 'key.delete' })]);
});

test('changes by the operator name the admin', async () => {
  const by = { key: rig.adminToken };
  const tenants = '/admin/v1/tenants';
  const body = { id: 'new', name: 'New' };
  const expected = (action: string, more: object = {}) => [
    expect.objectContaining({ action, actor: 'admin', tenant: 'new', ...more, ...from }),
  ];
  const created = await eventsOf(rig.call('POST', tenants, { ...by, body }));
  expect(created.events).toEqual(expected('tenant.create'));
  const path = `${tenants}/new`;
  const changed = await eventsOf(rig.call('PATCH', path, { ...by, body: { disabled: false } }));
  expect(changed.events).toEqual(expected('tenant.update', { fields: 'disabled' }));
  const grant = { ...by, body: { amount: 5 } };
  const granted = await eventsOf(rig.call('POST', `${path}/credits`, grant));
  expect(granted.events).toEqual(expected('credits.change', { amount: 5 }));
  const keyed = await eventsOf(rig.call('POST', `${path}/keys`, { ...by, body: { name: 'x' } }));
  expect(keyed.events).toEqual(expected('key.create', { target: keyed.answer.data.id }));
});

test('reads and rejected changes write no event', async () => {
  const by = { key: keys.manager };
  expect((await eventsOf(rig.call('GET', '/api/v1/keys', by))).events).toEqual([]);
  expect((await eventsOf(rig.call('POST', '/api/v1/keys', { ...by, body: {} }))).events).toEqual(
    [],
  );
});

test('a failed sign-in names the claimed key, never its secret', async () => {
  const secret = 'z'.repeat(40);
  for (const [key, actor] of [
    [`sk-mgmt-${'a'.repeat(16)}-${secret}`, `key_${'a'.repeat(16)}`],
    [`sk-admin-${secret}`, 'admin'],
    [`other-${secret}`, 'unknown'],
  ] as const) {
    const { answer, events } = await eventsOf(rig.call('GET', '/admin/v1/tenants', { key }));
    expect(answer.status).toBe(401);
    expect(events).toEqual([expect.objectContaining({ action: 'sign_in.fail', actor, ...from })]);
    expect(JSON.stringify(events)).not.toContain(secret);
  }
  const missing = await eventsOf(rig.call('GET', '/api/v1/keys', {}));
  expect([missing.answer.status, missing.events]).toEqual([401, []]);
});
