/** A gateway whose clock is an hour ahead of Postgres must use the time from Postgres. */
import { afterAll, beforeAll, expect, setSystemTime, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandEnvironment } from '../../src/cli/command-environment.ts';
import { runCommand } from '../../src/cli/dispatch.ts';
import { topics } from '../../src/cli/topics.ts';
import { isObject } from '../../src/core/json.ts';
import { Accounting } from '../../src/money/accounting.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { callerOf } from '../support/caller.ts';
import { readTable } from '../support/csv.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, type GatewaySettings, InProcessGateway } from '../support/in-process.ts';
import { startPostgres } from '../support/postgres.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let storeTime: number;
let settings: GatewaySettings;

beforeAll(async () => {
  const address = await (await startPostgres()).createDatabase();
  storeTime = Date.now();
  setSystemTime(storeTime + hourMs);
  const voice = { provider: 'vendor', model: 'voice', pricing: { bytes: '1' } };
  settings = {
    providers: { vendor: { dialect: 'openai', base_url: `${upstream.url}/v1` } },
    models: [
      chatModel('test/chat', [{ provider: 'vendor', model: 'chat' }]),
      {
        ...{ id: 'test/voice', name: 'test/voice', context_length: 4_096, features: ['speech'] },
        ...{ input_modalities: ['text'], output_modalities: ['audio'], endpoints: [voice] },
      },
    ],
    environment: {
      DATABASE_URL: address,
      TOLLGATE_SECRET_KEY: 'the same secret on all of the machines',
    },
  };
  gateway = await InProcessGateway.start(settings);
}, 120_000);
afterAll(async () => {
  await gateway.stop();
  setSystemTime();
  upstream.stop();
});

test("an idempotency key expires according to the store's clock", async () => {
  upstream.script('chat', chatAnswer('once'));
  const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'hi' }] };
  const reply = await gateway.post(chat, { headers: { 'idempotency-key': 'order-7' } });
  expect(reply.status).toBe(200);
  const { expires_at } = await gateway.store.database.read
    .selectFrom('idempotency_claims')
    .select('expires_at')
    .executeTakeFirstOrThrow();
  expect(Math.abs(expires_at - (storeTime + 24 * hourMs))).toBeLessThan(minuteMs);
});

test("a charge gets its time from the store's clock", async () => {
  const entries = await gateway.store.database.read
    .selectFrom('ledger_entries')
    .select('created_at')
    .where('kind', '=', 'charge')
    .execute();
  expect(entries).toHaveLength(1);
  expect(Math.abs(Number(entries[0]?.created_at) - storeTime)).toBeLessThan(minuteMs);
});

test("an API key expires according to the store's clock", async () => {
  setSystemTime(storeTime);
  const expiresAt = storeTime + 30 * minuteMs;
  const key = await gateway.makeKey({ expires_at: new Date(expiresAt).toISOString() });
  setSystemTime(storeTime + hourMs);
  expect((await gateway.get('/v1/models', { key })).status).toBe(200);
});

test("the overlap of a rotated key ends according to the store's clock", async () => {
  const rotate = async (overlap_seconds: number) => {
    const key = await gateway.makeKey({});
    const { data } = (await gateway.get('/v1/key', { key })).json;
    const path = `/api/v1/keys/${isObject(data) ? data.id : ''}/rotate`;
    await gateway.post({ overlap_seconds }, { path, key: gateway.keys.management });
    return (await gateway.get('/v1/models', { key })).status;
  };
  expect([await rotate(0), await rotate(600)]).toEqual([401, 200]);
  const { previous_until } = await gateway.store.database.read
    .selectFrom('api_keys')
    .select('previous_until')
    .where('previous_until', 'is not', null)
    .executeTakeFirstOrThrow();
  expect(Math.abs(Number(previous_until) - (storeTime + 10 * minuteMs))).toBeLessThan(minuteMs);
});

test("the age of a cached answer is measured with the store's clock", async () => {
  upstream.script('chat', chatAnswer('It rained.'));
  const messages = [{ role: 'user', content: 'And yesterday?' }];
  const chat = { model: 'test/chat', temperature: 0, messages };
  expect((await gateway.post(chat)).headers.get('x-cache')).toBe('MISS');
  // Set the correct time and read the cache entry, as another machine would.
  setSystemTime(storeTime);
  const again = await gateway.post(chat, { headers: { 'cache-control': 'max-age=60' } });
  setSystemTime(storeTime + hourMs);
  expect(again.headers.get('x-cache')).toBe('HIT');
});

test("a job gets its creation time from the store's clock, so that any process can start it", async () => {
  const job = {
    type: 'speech',
    model: 'test/voice',
    input: 'Hello.',
    voice: 'alloy',
    response_format: 'wav',
  };
  const reply = await gateway.post(job, { path: '/v1/jobs' });
  expect(reply.status).toBe(202);
  const createdAt = Date.parse(String(reply.json.created_at));
  expect(Math.abs(createdAt - storeTime)).toBeLessThan(minuteMs);
});

test("a request counts toward the key's limit of the day on which it arrived", async () => {
  const { store, folder } = gateway;
  const log = createLog(() => undefined);
  const accounting = await Accounting.open({
    store: store.ledger,
    durability: 'journal',
    log,
    processId: 'another',
    dataDir: join(folder, 'another'),
    onEnded: () => undefined,
  });
  const caller = callerOf('default', { limitCredits: 1_000, limitReset: 'daily' });
  const receivedAt = storeTime - 24 * hourMs;
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 10, minimum: 10 });
  expect(hold.keyAccount).toEndWith(new Date(receivedAt).toISOString().slice(0, 10));
  await hold.settle(0);
  await accounting.close();
});

test("HTTP and the CLI print the statement of the current month according to the store's clock", async () => {
  const config = join(gateway.folder, 'shell.yaml');
  writeFileSync(config, `database: "${settings.environment?.DATABASE_URL}"\n`);
  setSystemTime();
  const opening = `${new Date().toISOString().slice(0, 7)}-01T00:00:00.000Z`;
  setSystemTime(storeTime - 40 * 24 * hourMs);
  const { text } = await gateway.get('/v1/customer/billing/usage-statement.csv');
  const out: string[] = [];
  const code = await runCommand(['ledger', 'statement', '--config', config], topics, {
    ...commandEnvironment,
    write: async (piece) => void out.push(piece),
  });
  setSystemTime(storeTime + hourMs);
  expect(code).toBe(0);
  for (const csv of [text, out.join('')]) {
    expect(readTable(csv)[0]).toMatchObject({ time: opening, type: 'opening_balance' });
  }
});

test("log rows are deleted according to the store's clock", async () => {
  upstream.script('chat', chatAnswer('Still here.'));
  const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Remember this.' }] };
  const { requestId } = await gateway.post(chat);
  setSystemTime(storeTime + 30 * 24 * hourMs);
  const ahead = await InProcessGateway.start({ ...settings, logs: { keep_days: 7 } });
  // The gateway deletes old rows when it starts, and stop() waits for that.
  await ahead.stop();
  setSystemTime(storeTime + hourMs);
  const { logs } = (await gateway.get('/v1/customer/logs')).json;
  expect(logs).toContainEqual(expect.objectContaining({ request_id: requestId }));
});
