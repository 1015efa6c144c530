/** SIGHUP reloads the configuration for later requests without affecting running ones. */
import { afterAll, afterEach, beforeEach, expect, mock, spyOn, test } from 'bun:test';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { objectsIn } from '../../src/core/json.ts';
import { SqlJobs } from '../../src/store/jobs/jobs.ts';
import { SqlLogReads } from '../../src/store/reports/logs.ts';
import { chatAnswer, gated, json, startFakeUpstream, words } from '../support/fake-upstream.ts';
import { type Gateway, startGateway, upstreamConfig } from '../support/gateway.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { privateLine, serviceAccount } from '../support/service-account.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 120_000;
const credits = 10_000_000;
const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());
afterEach(() => mock.restore());

type Models = Parameters<typeof upstreamConfig>[0][string]['models'];

const settings = (models: Models, options: object = {}) => ({
  ...upstreamConfig({ fake: { url: upstream.url, models } }),
  ...options,
});
const chatOf = (model: string) => ({ model, messages: [{ role: 'user', content: 'one two' }] });

/** Writes the file, sends SIGHUP, and returns the log lines of the given event. */
async function reload(gateway: Gateway, config: object | string, event: string, lines = 1) {
  const count = () => gateway.log().filter((line) => line.event === event).length;
  const before = count();
  const text = typeof config === 'string' ? config : stringify(config);
  writeFileSync(join(gateway.folder, 'tollgate.yaml'), text);
  gateway.process.kill('SIGHUP');
  // Each line is written separately, so the first may be read before the next is written.
  await waitUntil(() => count() >= before + lines);
  return gateway.log().filter((line) => line.event === event);
}

/** Returns the reloads in the audit log, or undefined if there are none yet. */
async function auditedReloads(gateway: Gateway) {
  const { body } = await gateway.admin('GET', '/admin/v1/audit?action=settings.reload');
  const entries = objectsIn(body.data);
  return entries.length > 0 ? entries : undefined;
}

test(
  'a new price applies to the next request, and a running one keeps its price',
  async () => {
    // 2 words in and 6 out. At $1 per million, a word costs 1 credit.
    upstream.script('chat', gated('go', 3, chatAnswer(words(6))));
    const config = settings({ 'test/chat': { prompt: '1', completion: '1' } });
    await using gateway = await startGateway({ config });
    const running = await gateway.stream(chatOf('test/chat'));
    await running.read(2);
    await reload(
      gateway,
      settings({ 'test/chat': { prompt: '100', completion: '1000' } }),
      'config_reloaded',
    );
    upstream.open('go');
    expect(await running.read()).toBe(words(6));
    expect(await gateway.balance()).toBe(credits - (2 * 1 + 6 * 1));

    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - (2 * 100 + 6 * 1000));
    const [entry] = await waitUntil(() => auditedReloads(gateway));
    const priced = (prompt: string, completion: string) => ({
      'models.test/chat': { endpoints: [{ pricing: { prompt, completion } }] },
    });
    expect(entry).toMatchObject({ actor: 'operator', origin: 'signal' });
    expect(entry).toMatchObject({ before: priced('1', '1'), after: priced('100', '1000') });
  },
  testMs,
);

test(
  'new price steps for long prompts apply to the next request, but not to a running one',
  async () => {
    upstream.script('chat', gated('go', 3, chatAnswer(words(6))));
    await using gateway = await startGateway({ config: settings({ 'test/chat': {} }) });
    const running = await gateway.stream(chatOf('test/chat'));
    await running.read(2);
    const step = (above_tokens: number) => ({ above_tokens, prompt: '100', completion: '1000' });
    const stepped = (above: number) =>
      settings({ 'test/chat': { pricing: { long_prompts: [step(above)] } } });
    await reload(gateway, stepped(1), 'config_reloaded');
    upstream.open('go');
    expect(await running.read()).toBe(words(6));
    expect(await gateway.balance()).toBe(credits - (2 * 1 + 6 * 1));

    // A prompt of 2 words is above 1, but not above 2.
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - (2 * 100 + 6 * 1000));
    await reload(gateway, stepped(2), 'config_reloaded');
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - 6_200 - 8);

    const wrong = settings({ 'test/chat': { pricing: { long_prompts: [step(9), step(9)] } } });
    await reload(gateway, wrong, 'config_rejected');
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - 6_200 - 8 - 8);
  },
  testMs,
);

test(
  'a reload changes models, limits, and trusted proxies, and keeps request counts',
  async () => {
    await using gateway = await startGateway({
      config: settings({ 'test/old': { name: 'chat' } }, { limits: { requests_per_minute: 50 } }),
    });
    const leftMs = 60_000 - (Date.now() % 60_000);
    if (leftMs < 15_000) await Bun.sleep(leftMs + 50);
    const first = await gateway.chat(chatOf('test/old'));
    expect(first.headers.get('x-ratelimit-remaining')).toBe('49');
    expect((await gateway.chat(chatOf('test/new'))).status).toBe(404);

    const limits = { requests_per_minute: 4 };
    const server = { trusted_proxies: ['127.0.0.1'] };
    const next = settings({ 'test/new': { name: 'chat' } }, { limits, server });
    const [line] = await reload(gateway, next, 'config_reloaded');
    expect(line).toMatchObject({ level: 'info', source: 'tollgate.yaml', models: 1 });
    expect(line).not.toContainKey('needs_restart');
    const third = await gateway.chat(chatOf('test/new'));
    expect(third.status).toBe(200);
    expect(third.headers.get('x-ratelimit-limit')).toBe('4');
    expect(third.headers.get('x-ratelimit-remaining')).toBe('1');
    expect((await gateway.chat(chatOf('test/old'))).status).toBe(404);
    expect((await gateway.chat(chatOf('test/new'))).status).toBe(429);
    const { body } = await gateway.call('GET', '/v1/models', { key: gateway.keys.api });
    expect(body.data).toMatchObject([{ id: 'test/new' }]);
    const headers = { authorization: 'Bearer sk-tg-wrong', 'x-forwarded-for': '203.0.113.7' };
    expect((await fetch(`${gateway.url}/v1/models`, { headers })).status).toBe(401);
    const isFailure = ({ action }: Record<string, unknown>) => action === 'sign_in.fail';
    await waitUntil(() => gateway.log().some(isFailure));
    expect(gateway.log().find(isFailure)?.address).toBe('203.0.113.7');
  },
  testMs,
);

test(
  'an invalid file changes nothing, and every problem is logged',
  async () => {
    await using gateway = await startGateway({ config: settings({ 'test/chat': {} }) });
    const invalid = 'server: { prot: 1 }\ncache: { mode: sometimes }\nredis: 7\n';
    const lines = await reload(gateway, invalid, 'config_rejected', 3);
    expect(lines.map(({ level }) => level)).toEqual(['error', 'error', 'error']);
    expect(lines.map(({ problem }) => String(problem).split(' ').slice(0, 2))).toEqual([
      ['tollgate.yaml:', 'server.prot'],
      ['tollgate.yaml:', 'cache.mode'],
      ['tollgate.yaml:', 'redis'],
    ]);
    expect((await reload(gateway, 'a: [', 'config_rejected')).length).toBe(4);
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    expect((await reload(gateway, settings({}), 'config_reloaded')).length).toBe(1);
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(404);
  },
  testMs,
);

test.each<[string, string[]]>([
  ['one process', []],
  ['two workers', ['--workers', '2']],
])(
  'a deleted file changes nothing for %s',
  async (_, args) => {
    await using gateway = await startGateway({ config: settings({ 'test/chat': {} }), args });
    rmSync(join(gateway.folder, 'tollgate.yaml'));
    gateway.signal('SIGHUP');
    const events = () => gateway.log().filter(({ event }) => String(event).startsWith('config_'));
    await waitUntil(() => events().length > 0);
    expect(events()).toEqual([
      expect.objectContaining({
        event: 'config_rejected',
        problem: 'tollgate.yaml: this file does not exist',
      }),
    ]);
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    // Once the file is back, a reload applies it.
    await reload(gateway, settings({}), 'config_reloaded', args.length > 0 ? 2 : 1);
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(404);
  },
  testMs,
);

test(
  'settings that need a restart do not change, and their names are logged',
  async () => {
    const models = { 'test/chat': {} };
    await using gateway = await startGateway({ config: settings(models) });
    const changed = settings(models, {
      server: { host: '127.0.0.2', port: 9, drain_seconds: 7 },
      data_dir: './elsewhere',
      database: 'sqlite:./other.db',
      credits_per_usd: 5,
      billing: { durability: 'fsync' },
    });
    const [line] = await reload(gateway, changed, 'config_reloaded');
    // The port comes from the command line, which has precedence. `objects` depends on data_dir.
    expect(line?.needs_restart).toBe(
      'server.host, data_dir, database, objects, credits_per_usd, billing.durability',
    );
    upstream.script('chat', chatAnswer(words(3)));
    expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 5);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');
    expect(gateway.log().find(({ event }) => event === 'draining')).toMatchObject({ seconds: 7 });
  },
  testMs,
);

test(
  'no request fails during 20 reloads under load',
  async () => {
    const limits = { requests_per_minute: 1_000_000 };
    const variants = ['1', '2'].map((price) =>
      settings({ 'test/chat': { prompt: price, completion: '0' } }, { limits }),
    );
    await using gateway = await startGateway({ config: variants[0] ?? {} });
    const statuses: number[] = [];
    let isDone = false;
    const client = async () => {
      while (!isDone) statuses.push((await gateway.chat(chatOf('test/chat'))).status);
    };
    const clients = Array.from({ length: 8 }, client);
    for (let i = 1; i <= 20; i++) {
      await reload(gateway, variants[i % 2] ?? {}, 'config_reloaded');
      const before = statuses.length;
      await waitUntil(() => statuses.length >= before + 16);
    }
    isDone = true;
    await Promise.all(clients);
    expect([...new Set(statuses)]).toEqual([200]);
    // Every request costs 2 words at 1 or 2 credits each.
    const spent = credits - (await gateway.balance());
    expect(spent).toBeGreaterThan(2 * statuses.length);
    expect(spent).toBeLessThan(4 * statuses.length);
    expect(spent % 2).toBe(0);
  },
  testMs,
);

test(
  'a reload keeps the token of an unchanged service account and requests one for a new account',
  async () => {
    const token = (text: string) => json(200, { access_token: text, expires_in: 3_600 });
    upstream.script('/token', [token('ya29.first'), token('ya29.second')]);
    const configWith = (client_email: string) => {
      const api_key = serviceAccount(`${upstream.url}/token`, { client_email });
      const models = { 'test/chat': {} };
      return upstreamConfig({ fake: { url: upstream.url, api_key, models } });
    };
    await using gateway = await startGateway({ config: configWith('first@acme.example') });
    const receivedToken = async () => {
      expect((await gateway.chat(chatOf('test/chat'))).status).toBe(200);
      return upstream.requests.at(-1)?.headers.authorization;
    };
    expect(await receivedToken()).toBe('Bearer ya29.first');
    await reload(gateway, configWith('first@acme.example'), 'config_reloaded');
    expect(await receivedToken()).toBe('Bearer ya29.first');
    await reload(gateway, configWith('second@acme.example'), 'config_reloaded');
    expect(await receivedToken()).toBe('Bearer ya29.second');

    const invalid = upstreamConfig({
      fake: { url: upstream.url, api_key: '{"type":"service_account"', models: {} },
    });
    await reload(gateway, invalid, 'config_rejected');
    expect(await receivedToken()).toBe('Bearer ya29.second');
    expect(JSON.stringify(gateway.log())).not.toContain(privateLine);
  },
  testMs,
);

test.each<[string, (end: Promise<never>) => { readonly mock: { readonly calls: unknown[] } }]>([
  ['/v1/customer/logs', (end) => spyOn(SqlLogReads.prototype, 'page').mockReturnValue(end)],
  [
    '/v1/customer/logs/export.csv',
    (end) =>
      spyOn(SqlLogReads.prototype, 'all').mockImplementation(async function* () {
        yield await end;
      }),
  ],
  ['/v1/jobs', (end) => spyOn(SqlJobs.prototype, 'list').mockReturnValue(end)],
])(
  'pending reads of %s still count against the concurrency limit after a reload',
  async (path, hold) => {
    const gateway = await InProcessGateway.start({ providers: {}, models: [] });
    const end = Promise.withResolvers<never>();
    const { calls } = hold(end.promise).mock;
    const send = () => [1, 2, 3].map(() => gateway.get(path));
    const reads = send();
    await waitUntil(() => calls.length >= 2);
    gateway.reload();
    reads.push(...send());
    // By the time these are answered, the gateway has received the reads above.
    for (let i = 0; i < 5; i += 1) await gateway.get('/v1/customer/credits');
    const startedReads = calls.length;
    end.reject(new Error('The test is over.'));
    await Promise.all(reads);
    await gateway.stop();
    expect(startedReads).toBe(2);
  },
);
