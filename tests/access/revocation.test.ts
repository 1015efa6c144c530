/** A revoked key stops working in every process shortly after. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 120_000;
/**
 * The documentation promises 1 second, and auth/change-watch.test.ts checks the polling interval.
 * This tolerance is longer, because a busy machine may stop the processes for a while, but it
 * detects a process that never polls.
 */
const toleranceMs = 10_000;
/** A pause between attempts, so that polling stays below the limit of 6,000 reads per minute. */
const pauseMs = 20;
/** Longer than a busy machine takes to start a command. */
const withinMs = 60_000;

/** Too many changes for a poll every 400 ms to catch by chance. */
const switches = Array.from({ length: 12 }, (_, index) => index % 2 === 0);

const engines: readonly [string, () => Promise<Record<string, string>>][] = [
  ['SQLite', async () => ({})],
  ['Postgres', async () => ({ DATABASE_URL: await (await startPostgres()).createDatabase() })],
];

describe.each(engines)('key revocation on %s', (_, environment) => {
  let first: Gateway;
  let second: Gateway;

  beforeAll(async () => {
    first = await startGateway({ env: await environment() });
    second = await first.another();
  }, testMs);
  afterAll(async () => {
    await second.stop();
    await first.stop();
  }, testMs);

  /** Creates a key that both processes have cached. */
  async function knownKey(): Promise<{ id: string; key: string }> {
    const { body } = await first.manage('POST', '/api/v1/keys', { name: 'revoked' });
    const key = String(body.key);
    for (const gateway of [first, second]) expect(await accepts(gateway, key)).toBe(true);
    return { id: String(isObject(body.data) ? body.data.id : ''), key };
  }

  async function byHttp(method: string, path: string, body?: object): Promise<string> {
    const { status, text } = await first.manage(method, `/api/v1/keys/${path}`, body);
    return status === 200 ? 'done' : text;
  }

  async function byOperator(method: string, id: string, body?: object): Promise<string> {
    const path = `/admin/v1/tenants/default/keys/${id}`;
    const { status, text } = await first.admin(method, path, body);
    return status === 200 ? 'done' : text;
  }

  async function byCommand(...args: string[]): Promise<string> {
    const { exitCode, stderr } = await first.command('keys', ...args);
    return exitCode === 0 ? 'done' : stderr;
  }

  const revocations: readonly [string, (id: string) => Promise<string>][] = [
    ['disabled over HTTP', (id) => byHttp('PATCH', id, { disabled: true })],
    ['deleted over HTTP', (id) => byHttp('DELETE', id)],
    ['rotated over HTTP', (id) => byHttp('POST', `${id}/rotate`, {})],
    ['disabled by the operator', (id) => byOperator('PATCH', id, { disabled: true })],
    ['deleted by the operator', (id) => byOperator('DELETE', id)],
    ['disabled on the command line', (id) => byCommand('disable', id)],
    ['deleted on the command line', (id) => byCommand('delete', id)],
    ['rotated on the command line', (id) => byCommand('rotate', id)],
  ];

  test.each(revocations)(
    'a key %s is rejected by every process shortly after',
    async (_name, revoke) => {
      const { id, key } = await knownKey();
      const polling = Promise.all([first, second].map((one) => lastAccepted(one, key)));
      const result = await revoke(id);
      const answeredAt = performance.now();
      const last = await polling;
      for (const at of last) expect(at - answeredAt).toBeLessThanOrEqual(toleranceMs);
      expect(result).toBe('done');
    },
    testMs,
  );

  test(
    'the keys of a disabled tenant stop working until it is enabled again',
    async () => {
      const tenant = { id: 'acme', name: 'Acme' };
      await first.admin('POST', '/admin/v1/tenants', tenant);
      const created = await first.admin('POST', '/admin/v1/tenants/acme/keys', { name: 'app' });
      const key = String(created.body.key);
      for (const gateway of [first, second]) expect(await accepts(gateway, key)).toBe(true);

      const polling = Promise.all([first, second].map((one) => lastAccepted(one, key)));
      await second.admin('PATCH', '/admin/v1/tenants/acme', { disabled: true });
      const answeredAt = performance.now();
      const last = await polling;
      for (const at of last) expect(at - answeredAt).toBeLessThanOrEqual(toleranceMs);

      await second.admin('PATCH', '/admin/v1/tenants/acme', { disabled: false });
      await waitUntil(() => accepts(first, key));
    },
    testMs,
  );

  test(
    'the process that changed a key applies the change to the next request',
    async () => {
      const { id, key } = await knownKey();
      const results: boolean[] = [];
      for (const disabled of switches) {
        await first.manage('PATCH', `/api/v1/keys/${id}`, { disabled });
        results.push(!(await accepts(first, key)));
      }
      expect(results).toEqual(switches);
      for (const disabled of switches) {
        await first.admin('PATCH', '/admin/v1/tenants/default', { disabled });
        results.push(!(await accepts(first, key)));
      }
      expect(results).toEqual([...switches, ...switches]);
      for (let time = 0; time < 5; time += 1) {
        const rotated = await knownKey();
        expect(await byHttp('POST', `${rotated.id}/rotate`)).toBe('done');
        expect(await accepts(first, rotated.key)).toBe(false);
        const deleted = await knownKey();
        expect(await byHttp('DELETE', deleted.id)).toBe('done');
        expect(await accepts(first, deleted.key)).toBe(false);
      }
    },
    testMs,
  );
});

async function accepts(gateway: Gateway, key: string): Promise<boolean> {
  const { status, text } = await gateway.call('GET', '/v1/models', { key });
  if (status !== 200 && status !== 401) throw new Error(`${status} ${text}`);
  return status === 200;
}

/** Returns when the last accepted request was sent. */
async function lastAccepted(gateway: Gateway, key: string): Promise<number> {
  let last = Number.NEGATIVE_INFINITY;
  const isRejected = async () => {
    const sentAt = performance.now();
    if (!(await accepts(gateway, key))) return true;
    last = sentAt;
    return false;
  };
  await waitUntil(isRejected, { everyMs: pauseMs, withinMs });
  return last;
}
