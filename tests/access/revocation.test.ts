/** A key that is taken away stops working everywhere a moment later, whoever took it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

const testMs = 120_000;
/**
 * A second is promised, and kept by how often a process looks (auth/change-watch.test.ts). Here the
 * machine may stand still in between; who does not look at all is missed by any limit.
 */
const promisedMs = 10_000;
/** Between two tries, so that trying does not keep the gateways from their work. */
const pauseMs = 5;

/** Too many for a look every 400 ms to have come in time by chance. */
const switches = Array.from({ length: 12 }, (_, at) => at % 2 === 0);

const engines: readonly [string, () => Promise<Record<string, string>>][] = [
  ['SQLite', async () => ({})],
  ['Postgres', async () => ({ DATABASE_URL: await (await startPostgres()).createDatabase() })],
];

describe.each(engines)('on %s', (_, environment) => {
  let here: Gateway;
  let there: Gateway;

  beforeAll(async () => {
    here = await startGateway({ env: await environment() });
    there = await here.another();
  }, testMs);
  afterAll(async () => {
    await there.stop();
    await here.stop();
  }, testMs);

  /** A key that both processes know, so that both have something to forget. */
  async function knownKey(): Promise<{ id: string; key: string }> {
    const { body } = await here.manage('POST', '/api/v1/keys', { name: 'doomed' });
    const key = String(body.key);
    for (const gateway of [here, there]) expect(await accepts(gateway, key)).toBe(true);
    return { id: String(isObject(body.data) ? body.data.id : ''), key };
  }

  async function byHttp(method: string, path: string, body?: object): Promise<string> {
    const { status, text } = await here.manage(method, `/api/v1/keys/${path}`, body);
    return status === 200 ? 'done' : text;
  }

  async function byCommand(...words: string[]): Promise<string> {
    const { exitCode, stderr } = await here.command('keys', ...words);
    return exitCode === 0 ? 'done' : stderr;
  }

  const ways: readonly [string, (id: string) => Promise<string>][] = [
    ['disabled over HTTP', (id) => byHttp('PATCH', id, { disabled: true })],
    ['deleted over HTTP', (id) => byHttp('DELETE', id)],
    ['rotated over HTTP', (id) => byHttp('POST', `${id}/rotate`, {})],
    ['disabled on the command line', (id) => byCommand('disable', id)],
    ['deleted on the command line', (id) => byCommand('delete', id)],
    ['rotated on the command line', (id) => byCommand('rotate', id)],
  ];

  test.each(ways)(
    'a key %s is refused by every process soon after',
    async (_way, revoke) => {
      const { id, key } = await knownKey();
      const polling = Promise.all([here, there].map((one) => lastAccepted(one, key)));
      const result = await revoke(id);
      const answeredAt = performance.now();
      const last = await polling;
      for (const at of last) expect(at - answeredAt).toBeLessThanOrEqual(promisedMs);
      expect(result).toBe('done');
    },
    testMs,
  );

  test(
    'a disabled tenant takes its keys along, and gets them back',
    async () => {
      const tenant = { id: 'acme', name: 'Acme' };
      await here.admin('POST', '/admin/v1/tenants', tenant);
      const made = await here.admin('POST', '/admin/v1/tenants/acme/keys', { name: 'app' });
      const key = String(made.body.key);
      for (const gateway of [here, there]) expect(await accepts(gateway, key)).toBe(true);

      const polling = Promise.all([here, there].map((one) => lastAccepted(one, key)));
      await there.admin('PATCH', '/admin/v1/tenants/acme', { disabled: true });
      const answeredAt = performance.now();
      const last = await polling;
      for (const at of last) expect(at - answeredAt).toBeLessThanOrEqual(promisedMs);

      await there.admin('PATCH', '/admin/v1/tenants/acme', { disabled: false });
      while (!(await accepts(here, key)));
    },
    testMs,
  );

  test(
    'the process that was told of a change goes by it from the next request on',
    async () => {
      const { id, key } = await knownKey();
      const seen: boolean[] = [];
      for (const disabled of switches) {
        await here.manage('PATCH', `/api/v1/keys/${id}`, { disabled });
        seen.push(!(await accepts(here, key)));
      }
      expect(seen).toEqual(switches);
      for (const disabled of switches) {
        await here.admin('PATCH', '/admin/v1/tenants/default', { disabled });
        seen.push(!(await accepts(here, key)));
      }
      expect(seen).toEqual([...switches, ...switches]);
      for (let time = 0; time < 5; time += 1) {
        const lost = await knownKey();
        expect(await byHttp('POST', `${lost.id}/rotate`)).toBe('done');
        expect(await accepts(here, lost.key)).toBe(false);
        const gone = await knownKey();
        expect(await byHttp('DELETE', gone.id)).toBe('done');
        expect(await accepts(here, gone.key)).toBe(false);
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

/** When the last request was sent that the key still opened a door for. */
async function lastAccepted(gateway: Gateway, key: string): Promise<number> {
  let last = Number.NEGATIVE_INFINITY;
  for (;;) {
    const sentAt = performance.now();
    if (!(await accepts(gateway, key))) return last;
    last = sentAt;
    await Bun.sleep(pauseMs);
  }
}
