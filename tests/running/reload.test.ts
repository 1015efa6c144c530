/** SIGHUP: other settings from the next request on, and none of those under way notices. */
import { afterAll, afterEach, beforeEach, expect, mock, spyOn, test } from 'bun:test';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { SqlJobs } from '../../src/store/jobs/jobs.ts';
import { SqlLogReads } from '../../src/store/reports/logs.ts';
import { gated, json, chatAnswer, startFakeUpstream, words } from '../support/fake-upstream.ts';
import { type Gateway, startGateway, upstreamConfig } from '../support/gateway.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { privateLine, serviceAccount } from '../support/service-account.ts';

const testMs = 120_000;
const credits = 10_000_000;
const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());
afterEach(() => mock.restore());

type Models = Parameters<typeof upstreamConfig>[0][string]['models'];

const settings = (models: Models, more: object = {}) => ({
  ...upstreamConfig({ fake: { url: upstream.url, models } }),
  ...more,
});
const asking = (model: string) => ({ model, messages: [{ role: 'user', content: 'one two' }] });

/** Writes the file, sends the signal and waits for the lines that say what came of it. */
async function reload(gateway: Gateway, config: object | string, event: string, lines = 1) {
  const count = () => gateway.log().filter((line) => line.event === event).length;
  const before = count();
  const text = typeof config === 'string' ? config : stringify(config);
  writeFileSync(join(gateway.folder, 'tollgate.yaml'), text);
  gateway.process.kill('SIGHUP');
  // Each line is a write of its own: the first may be read before the next is there.
  while (count() < before + lines) await Bun.sleep(5);
  return gateway.log().filter((line) => line.event === event);
}

test(
  'a new price holds for the next request; a running one keeps the price it began with',
  async () => {
    // Two words in, six out; a dollar per million is a credit a word.
    upstream.script('chat', gated('go', 3, chatAnswer(words(6))));
    const config = settings({ 'test/chat': { prompt: '1', completion: '1' } });
    await using gateway = await startGateway({ config });
    const running = await gateway.stream(asking('test/chat'));
    await running.read(2);
    await reload(
      gateway,
      settings({ 'test/chat': { prompt: '100', completion: '1000' } }),
      'config_reloaded',
    );
    upstream.open('go');
    expect(await running.read()).toBe(words(6));
    expect(await gateway.balance()).toBe(credits - (2 * 1 + 6 * 1));

    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - (2 * 100 + 6 * 1000));
  },
  testMs,
);

test(
  'steps for long prompts come with a reload, and a running request goes on without them',
  async () => {
    upstream.script('chat', gated('go', 3, chatAnswer(words(6))));
    await using gateway = await startGateway({ config: settings({ 'test/chat': {} }) });
    const running = await gateway.stream(asking('test/chat'));
    await running.read(2);
    const step = (above_tokens: number) => ({ above_tokens, prompt: '100', completion: '1000' });
    const stepped = (above: number) =>
      settings({ 'test/chat': { pricing: { long_prompts: [step(above)] } } });
    await reload(gateway, stepped(1), 'config_reloaded');
    upstream.open('go');
    expect(await running.read()).toBe(words(6));
    expect(await gateway.balance()).toBe(credits - (2 * 1 + 6 * 1));

    // Two words in are above one, and not above two.
    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - (2 * 100 + 6 * 1000));
    await reload(gateway, stepped(2), 'config_reloaded');
    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - 6_200 - 8);

    const wrong = settings({ 'test/chat': { pricing: { long_prompts: [step(9), step(9)] } } });
    await reload(gateway, wrong, 'config_refused');
    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 8 - 6_200 - 8 - 8);
  },
  testMs,
);

test(
  'models come and go, and what was counted goes on under the new limits',
  async () => {
    await using gateway = await startGateway({
      config: settings({ 'test/old': { name: 'chat' } }, { limits: { requests_per_minute: 50 } }),
    });
    const leftMs = 60_000 - (Date.now() % 60_000);
    if (leftMs < 15_000) await Bun.sleep(leftMs + 50);
    const first = await gateway.chat(asking('test/old'));
    expect(first.headers.get('x-ratelimit-remaining')).toBe('49');
    expect((await gateway.chat(asking('test/new'))).status).toBe(404);

    const next = settings({ 'test/new': { name: 'chat' } }, { limits: { requests_per_minute: 4 } });
    const [line] = await reload(gateway, next, 'config_reloaded');
    expect(line).toMatchObject({ level: 'info', source: 'tollgate.yaml', models: 1 });
    expect(line).not.toContainKey('needs_restart');
    const third = await gateway.chat(asking('test/new'));
    expect(third.status).toBe(200);
    expect(third.headers.get('x-ratelimit-limit')).toBe('4');
    expect(third.headers.get('x-ratelimit-remaining')).toBe('1');
    expect((await gateway.chat(asking('test/old'))).status).toBe(404);
    expect((await gateway.chat(asking('test/new'))).status).toBe(429);
    const { body } = await gateway.call('GET', '/v1/models', { key: gateway.keys.api });
    expect(body.data).toMatchObject([{ id: 'test/new' }]);
  },
  testMs,
);

test(
  'a bad file changes nothing, and every problem of it is in the log',
  async () => {
    await using gateway = await startGateway({ config: settings({ 'test/chat': {} }) });
    const bad = 'server: { prot: 1 }\ncache: { mode: sometimes }\nredis: 7\n';
    const refused = await reload(gateway, bad, 'config_refused', 3);
    expect(refused.map(({ level }) => level)).toEqual(['error', 'error', 'error']);
    expect(refused.map(({ problem }) => String(problem).split(' ').slice(0, 2))).toEqual([
      ['tollgate.yaml:', 'server.prot'],
      ['tollgate.yaml:', 'cache.mode'],
      ['tollgate.yaml:', 'redis'],
    ]);
    expect((await reload(gateway, 'a: [', 'config_refused')).length).toBe(4);
    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    expect((await reload(gateway, settings({}), 'config_reloaded')).length).toBe(1);
    expect((await gateway.chat(asking('test/chat'))).status).toBe(404);
  },
  testMs,
);

test.each<[string, string[]]>([
  ['one process', []],
  ['two workers', ['--workers', '2']],
])(
  'a file that is gone is a bad file, not none: %s go on as before',
  async (_, args) => {
    await using gateway = await startGateway({ config: settings({ 'test/chat': {} }), args });
    rmSync(join(gateway.folder, 'tollgate.yaml'));
    gateway.signal('SIGHUP');
    const told = () => gateway.log().filter(({ event }) => String(event).startsWith('config_'));
    while (told().length === 0) await Bun.sleep(5);
    expect(told()).toEqual([
      expect.objectContaining({
        event: 'config_refused',
        problem: 'tollgate.yaml: this file does not exist',
      }),
    ]);
    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    // Back again, it counts as ever.
    await reload(gateway, settings({}), 'config_reloaded', args.length > 0 ? 2 : 1);
    expect((await gateway.chat(asking('test/chat'))).status).toBe(404);
  },
  testMs,
);

test(
  'what cannot change while it runs stays, and is named',
  async () => {
    const models = { 'test/chat': {} };
    await using gateway = await startGateway({ config: settings(models) });
    const wanted = settings(models, {
      server: { host: '127.0.0.2', port: 9, drain_seconds: 7 },
      data_dir: './elsewhere',
      database: 'sqlite:./other.db',
      credits_per_usd: 5,
      billing: { durability: 'fsync' },
    });
    const [line] = await reload(gateway, wanted, 'config_reloaded');
    // The port was given on the command line, which wins now as before; objects follow data_dir.
    expect(line?.needs_restart).toBe(
      'server.host, data_dir, database, objects, credits_per_usd, billing.durability',
    );
    upstream.script('chat', chatAnswer(words(3)));
    expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
    expect(await gateway.balance()).toBe(credits - 5);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');
    expect(gateway.log().find(({ event }) => event === 'draining')).toMatchObject({ seconds: 7 });
  },
  testMs,
);

test(
  'no request is lost while it reloads again and again under load',
  async () => {
    const limits = { requests_per_minute: 1_000_000 };
    const variants = ['1', '2'].map((price) =>
      settings({ 'test/chat': { prompt: price, completion: '0' } }, { limits }),
    );
    await using gateway = await startGateway({ config: variants[0] ?? {} });
    const statuses: number[] = [];
    let isOver = false;
    const client = async () => {
      while (!isOver) statuses.push((await gateway.chat(asking('test/chat'))).status);
    };
    const clients = Array.from({ length: 8 }, client);
    for (let i = 1; i <= 20; i++) {
      await reload(gateway, variants[i % 2] ?? {}, 'config_reloaded');
      const before = statuses.length;
      while (statuses.length < before + 16) await Bun.sleep(1);
    }
    isOver = true;
    await Promise.all(clients);
    expect([...new Set(statuses)]).toEqual([200]);
    // Two words at one credit or two: nothing in between, nothing else.
    const spent = credits - (await gateway.balance());
    expect(spent).toBeGreaterThan(2 * statuses.length);
    expect(spent).toBeLessThan(4 * statuses.length);
    expect(spent % 2).toBe(0);
  },
  testMs,
);

test(
  'a service account keeps its token through a reload, and another one gets its own',
  async () => {
    const token = (text: string) => json(200, { access_token: text, expires_in: 3_600 });
    upstream.script('/token', [token('ya29.first'), token('ya29.second')]);
    const of = (client_email: string) => {
      const api_key = serviceAccount(`${upstream.url}/token`, { client_email });
      const models = { 'test/chat': {} };
      return upstreamConfig({ fake: { url: upstream.url, api_key, models } });
    };
    await using gateway = await startGateway({ config: of('first@acme.example') });
    const shown = async () => {
      expect((await gateway.chat(asking('test/chat'))).status).toBe(200);
      return upstream.requests.at(-1)?.headers.authorization;
    };
    expect(await shown()).toBe('Bearer ya29.first');
    await reload(gateway, of('first@acme.example'), 'config_reloaded');
    expect(await shown()).toBe('Bearer ya29.first');
    await reload(gateway, of('second@acme.example'), 'config_reloaded');
    expect(await shown()).toBe('Bearer ya29.second');

    const half = upstreamConfig({
      fake: { url: upstream.url, api_key: '{"type":"service_account"', models: {} },
    });
    await reload(gateway, half, 'config_refused');
    expect(await shown()).toBe('Bearer ya29.second');
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
])('reads of %s that wait do not find new turns after a reload', async (path, hold) => {
  const gateway = await InProcessGateway.start({ providers: {}, models: [] });
  const end = Promise.withResolvers<never>();
  const { calls } = hold(end.promise).mock;
  const send = () => [1, 2, 3].map(() => gateway.get(path));
  const reads = send();
  while (calls.length < 2) await Bun.sleep(1);
  gateway.reload();
  reads.push(...send());
  // Answered behind those that were sent before.
  for (let i = 0; i < 5; i += 1) await gateway.get('/v1/customer/credits');
  const begun = calls.length;
  end.reject(new Error('The test is over.'));
  await Promise.all(reads);
  await gateway.stop();
  expect(begun).toBe(2);
});
