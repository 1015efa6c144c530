/**
 * Moves a gateway from SQLite to Postgres with `tollgate move`, as docs/deployment.md describes.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import {
  chatAnswer,
  type FakeUpstream,
  startFakeUpstream,
  words,
} from '../support/fake-upstream.ts';
import { type Gateway, type GatewayOptions, run, startGateway } from '../support/gateway.ts';
import { queryPostgres, startPostgres, tablesInPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 120_000;
const maxBalance = 9_007_199_254_740_991;
const price = { prompt: '2', completion: '3' };
const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello there!' }] };
const idempotent = { headers: { 'idempotency-key': 'once' } };

let upstream: FakeUpstream;
beforeAll(() => {
  upstream = startFakeUpstream();
  upstream.script('chat', chatAnswer(words(7)));
});
afterAll(() => upstream.stop());

const options = (): GatewayOptions => ({
  upstreams: { fake: { url: upstream.url, models: { 'test/chat': price } } },
  config: { demo: true },
});

async function emptyPostgres(): Promise<string> {
  return (await startPostgres()).createDatabase();
}

const fileOf = ({ dataDir }: Pick<Gateway, 'dataDir'>) => join(dataDir, 'tollgate.db');

const move = (url: string, dataDir: string) =>
  run(['move', '--to', url], { ...options(), dataDir });

interface Filled {
  readonly jobId: string;
  /** A key of the tenant acme, with a limit. */
  readonly acmeKey: string;
}

/** Creates rows in every table that a customer can read. */
async function fill(gateway: Gateway): Promise<Filled> {
  const key = gateway.keys.api;
  await gateway.admin('POST', '/admin/v1/tenants', { id: 'acme', name: 'Acme “Ü” Ltd' });
  await gateway.admin('POST', '/admin/v1/tenants/acme/credits', { amount: maxBalance });
  const limit = { name: 'limited', limit: 1_000, limit_reset: 'monthly' };
  const created = await gateway.admin('POST', '/admin/v1/tenants/acme/keys', limit);
  const acmeKey = String(created.body.key);
  await gateway.admin('POST', '/admin/v1/tenants/default/credits', { amount: -500 });
  await gateway.manage('PUT', '/api/v1/byok/fake', { api_key: 'sk-own-0123456789' });
  const skill = { description: 'Speaks like a pirate', instructions: 'Say “Arrr”. 🏴‍☠️' };
  await gateway.call('PUT', '/v1/customer/skills/pirate', { key, body: skill });
  for (const body of [chat, { ...chat, skills: ['pirate'] }]) {
    expect((await gateway.chat(body)).status).toBe(200);
  }
  expect((await gateway.chat(chat, { key: acmeKey })).status).toBe(200);
  expect((await gateway.chat({ ...chat, model: 'test/none' })).status).toBe(404);
  expect((await gateway.chat(chat, idempotent)).status).toBe(200);
  const speech = { model: 'demo/speech', voice: 'alloy', input: 'All is well.' };
  const job = await gateway.call('POST', '/v1/jobs', { key, body: speech });
  const jobId = String(job.body.id);
  await waitUntil(async () => (await jobOf(gateway, jobId)).status === 'succeeded', {
    everyMs: 20,
  });
  return { jobId, acmeKey };
}

async function jobOf(gateway: Gateway, id: string): Promise<Record<string, unknown>> {
  return (await gateway.call('GET', `/v1/jobs/${id}`, { key: gateway.keys.api })).body;
}

/** Reads everything that customers, managers, and the operator can read through the API. */
async function readEverything(gateway: Gateway, { jobId, acmeKey }: Filled): Promise<object> {
  const { api, management, admin } = gateway.keys;
  const paths: readonly (readonly [string, string])[] = [
    ['/v1/customer/logs?limit=100', api],
    ['/v1/customer/logs?limit=100', acmeKey],
    ['/v1/customer/analytics', api],
    ['/v1/customer/credits', api],
    ['/v1/customer/billing/usage-statement.csv', api],
    ['/v1/customer/billing/usage-statement.csv', acmeKey],
    ['/v1/customer/skills/pirate', api],
    [`/v1/jobs/${jobId}`, api],
    ['/v1/key', acmeKey],
    ['/api/v1/keys', management],
    ['/api/v1/byok/fake', management],
    ['/admin/v1/tenants', admin],
    ['/admin/v1/tenants/acme/credits', admin],
  ];
  const texts: string[] = [];
  for (const [path, key] of paths) {
    const { status, text } = await gateway.call('GET', path, { key });
    expect([path, status]).toEqual([path, 200]);
    texts.push(text.replaceAll(gateway.url, '').replace(/^.*,,(closing_balance)/m, '$1'));
  }
  const { output } = await jobOf(gateway, jobId);
  const file = await fetch(String(isObject(output) ? output.url : ''));
  expect(file.status).toBe(200);
  // Links are signed for an hour from now, the last use of a key is written with a delay, and the
  // leases belong to the process.
  const changing = /"(?:url|url_expires_at|last_used_at|leased)":(?:"[^"]*"|null|\d+)/g;
  return { texts: texts.map((text) => text.replaceAll(changing, '…')), file: await file.bytes() };
}

test(
  'move copies everything to Postgres, where keys work and requests are charged',
  async () => {
    const url = await emptyPostgres();
    const gateway = await startGateway(options());
    const filled = await fill(gateway);
    const before = await readEverything(gateway, filled);
    await gateway.stop();
    const file = readFileSync(fileOf(gateway));

    const { exitCode, stdout, stderr } = await move(url, gateway.dataDir);
    expect([exitCode, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^TABLE +ROWS\ntenants +2\napi_keys +3\naccounts +3\n/);
    // 4 calls of test/chat, one piece of the job, and a request for an unknown model.
    expect(stdout).toMatch(/^request_log +6\n/m);
    expect(stdout).toMatch(/^The ledger is consistent: 3 accounts, \d+ entries, 6 requests\.\n/m);
    expect(stdout).toContain('Set DATABASE_URL');
    expect(stdout).toContain(join(gateway.dataDir, 'secret.key'));
    expect(readFileSync(fileOf(gateway)).equals(file)).toBe(true);

    {
      await using next = await gateway.another({ env: { DATABASE_URL: url } });
      expect(await readEverything(next, filled)).toEqual(before);
      const calls = upstream.requests.length;
      const repeated = await next.chat(chat, idempotent);
      expect(repeated.headers.get('idempotent-replayed')).toBe('true');
      expect(upstream.requests.length).toBe(calls);
      expect((await next.chat(chat)).status).toBe(200);
      expect(upstream.requests.at(-1)?.headers.authorization).toBe('Bearer sk-own-0123456789');
      const balance = await next.balance('acme');
      expect(maxBalance - balance).toBe(2 * 2 + 3 * 7);
      expect((await next.chat(chat, { key: filled.acmeKey })).status).toBe(200);
      expect(balance - (await next.balance('acme'))).toBe(2 * 2 + 3 * 7);
    }
    const verified = await run(['ledger', 'verify'], { env: { DATABASE_URL: url } });
    expect(verified.stdout).toMatch(
      /^The ledger is consistent: 3 accounts, \d+ entries, 9 requests\./,
    );
  },
  testMs,
);

test(
  'move rejects a target database that a gateway has used, and does not change it',
  async () => {
    const url = await emptyPostgres();
    await using other = await startGateway({ ...options(), env: { DATABASE_URL: url } });
    const gateway = await startGateway(options());
    await gateway.stop();
    const { exitCode, stdout, stderr } = await move(url, gateway.dataDir);
    expect([exitCode, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      "The target database isn't empty: its table tenants has rows. Create a new one, and don't " +
        'start a gateway on it first. Nothing was copied.\n',
    );
    expect((await other.chat(chat)).status).toBe(200);
    expect(await queryPostgres(url, 'select count(*)::int as keys from api_keys')).toEqual([
      { keys: 2 },
    ]);
  },
  testMs,
);

test(
  'move rejects a store until its gateway has stopped and its journal is booked',
  async () => {
    const url = await emptyPostgres();
    const gateway = await startGateway(options());
    expect((await gateway.chat(chat)).status).toBe(200);
    const balance = await gateway.balance();
    const refusal = (owner: Gateway) =>
      `Process ${owner.process.pid} on ${hostname()} has a journal in ` +
      `${join(owner.dataDir, 'journal')}. Stop that gateway. If it was killed, start a gateway ` +
      'there to book its last charges, then stop the new gateway.\n';
    const running = await move(url, gateway.dataDir);
    expect([running.exitCode, running.stdout, running.stderr]).toEqual([1, '', refusal(gateway)]);
    await gateway.kill9();
    const killed = await move(url, gateway.dataDir);
    expect([killed.exitCode, killed.stdout, killed.stderr]).toEqual([1, '', refusal(gateway)]);
    expect(await tablesInPostgres(url)).toEqual([]);
    await (await gateway.another()).stop();
    const withoutPassword = new URL(url);
    withoutPassword.password = '';
    const env = { PGPASSWORD: new URL(url).password };
    const { dataDir } = gateway;
    const moved = await run(['move', '--to', withoutPassword.href], { ...options(), dataDir, env });
    expect([moved.exitCode, moved.stderr]).toEqual([0, '']);
    await using next = await gateway.another({ env: { DATABASE_URL: url } });
    expect(await next.balance()).toBe(balance);
  },
  testMs,
);
