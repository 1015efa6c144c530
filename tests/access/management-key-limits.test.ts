/** A management key can't get more rights, or keep them for longer, than its operator gave it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createKey, rotateKey } from '../../src/auth/management/keys.ts';
import { ManagementServer } from '../support/management-server.ts';

let rig: ManagementServer;
beforeAll(async () => {
  rig = await ManagementServer.start();
  await rig.addTenant('acme');
});
afterAll(() => rig.stop());

const [soon, later] = ['2026-12-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'];

/** Creates a key as the operator does. */
async function issue(settings: object): Promise<{ id: string; text: string }> {
  const { key, text } = await createKey(rig.service, 'acme', { name: 'a key', ...settings });
  return { id: key.id, text };
}
const manager = (settings: object = {}) => issue({ management: true, ...settings });

const post = (key: string, body: object) =>
  rig.call('POST', '/api/v1/keys', { key, body: { name: 'new', ...body } });
const patch = (key: string, id: string, body: object) =>
  rig.call('PATCH', `/api/v1/keys/${id}`, { key, body });
const rotate = (key: string, id: string) => rig.call('POST', `/api/v1/keys/${id}/rotate`, { key });

describe('a management key that expires', () => {
  test.each([later, null])("can't set its own expiration to %p", async (expires_at) => {
    const { id, text } = await manager({ expires_at: soon });
    const answer = await patch(text, id, { expires_at });
    expect([answer.status, answer.data.param]).toEqual([403, 'expires_at']);
    const shown = await rig.call('GET', `/api/v1/keys/${id}`, { key: text });
    expect(shown.data.expires_at).toBe(soon);
  });

  test.each([true, false])(
    "can't create a key that expires later (management: %p)",
    async (management) => {
      const { text } = await manager({ expires_at: soon });
      const answer = await post(text, { management, expires_at: later });
      expect([answer.status, answer.data.param]).toEqual([403, 'expires_at']);
      const { status, data } = await post(text, { management });
      expect([status, data.expires_at]).toEqual([201, soon]);
    },
  );

  test("can't let another key expire later, but can shorten it", async () => {
    const { text } = await manager({ expires_at: soon });
    const short = await issue({ expires_at: '2026-11-20T00:00:00.000Z' });
    expect((await patch(text, short.id, { expires_at: later })).status).toBe(403);
    expect((await patch(text, short.id, { expires_at: soon })).status).toBe(200);
    const endless = await issue({});
    expect((await patch(text, endless.id, { expires_at: later })).status).toBe(200);
  });

  test("can't get the secret of a key that expires later by rotating it", async () => {
    const { id, text } = await manager({ expires_at: soon });
    const endless = await manager();
    expect((await rotate(text, endless.id)).status).toBe(403);
    expect((await rotate(endless.text, endless.id)).status).toBe(200);
    expect((await rotate(text, id)).status).toBe(200);
  });
});

test('the previous secret of a management key issues no new management secrets', async () => {
  const { id, text } = await manager();
  const current = await rotateKey(rig.service, 'acme', id, { overlap_seconds: 60 });
  rig.noticeChanges();
  expect((await rotate(text, id)).status).toBe(403);
  expect((await post(text, { management: true })).status).toBe(403);
  expect((await post(text, {})).status).toBe(201);
  expect((await post(current.text, { management: true })).status).toBe(201);
});

test("a management key with a rate limit can't raise it, or create a faster one", async () => {
  const { id, text } = await manager({ requests_per_minute: 5 });
  for (const requests_per_minute of [6, null]) {
    const answers = [
      await patch(text, id, { requests_per_minute }),
      await post(text, { management: true, requests_per_minute }),
    ];
    for (const { status, data } of answers) {
      expect([status, data.param]).toEqual([403, 'requests_per_minute']);
    }
  }
  expect((await rotate(text, (await manager()).id)).status).toBe(403);
  expect((await post(text, { management: true, requests_per_minute: 5 })).status).toBe(201);
  expect((await post(text, { requests_per_minute: 60 })).status).toBe(201);
});

test("a management key can't enable a key that the operator disabled", async () => {
  const { text } = await manager();
  const { id } = await issue({});
  const asOperator = (disabled: boolean) =>
    rig.call('PATCH', `/admin/v1/tenants/acme/keys/${id}`, {
      key: rig.adminToken,
      body: { disabled },
    });
  expect((await asOperator(true)).status).toBe(200);
  const { status, data } = await patch(text, id, { disabled: false });
  expect([status, data.param]).toEqual([403, 'disabled']);
  expect((await patch(text, id, { disabled: true })).data.disabled).toBe(true);
  expect((await patch(text, id, { disabled: false })).status).toBe(403);
  expect((await asOperator(false)).data.disabled).toBe(false);
  expect((await patch(text, id, { disabled: true })).status).toBe(200);
  expect((await patch(text, id, { disabled: false })).data.disabled).toBe(false);
});
