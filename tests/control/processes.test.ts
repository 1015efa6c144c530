/**
 * Four processes on Postgres use a configuration that is made over HTTP only. A kill loses none of
 * it, and another store gets it by an export.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream, words } from '../support/fake-upstream.ts';
import { type Gateway, newFolder, run, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';

const testMs = 240_000;
const upstream = startFakeUpstream();
const apiKeys = { first: 'sk-scripted-first-0123', second: 'sk-scripted-second-4567' };
const secretKey = { TOLLGATE_SECRET_KEY: 'the same on all of the four machines' };
let gateways: Gateway[] = [];
let creditsAtStart = 0;
/** What the test expects to have been charged. */
let charged = 0;

beforeAll(async () => {
  upstream.script('chat', chatAnswer(words(6)));
  upstream.script('other', chatAnswer(words(6)));
  const env = { DATABASE_URL: await (await startPostgres()).createDatabase(), ...secretKey };
  const first = await startGateway({ env });
  const others = [1, 2, 3].map(() => startGateway({ env, keys: first.keys }));
  gateways = [first, ...(await Promise.all(others))];
  creditsAtStart = await first.balance();
}, testMs);
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.stop()));
  await upstream.stop();
}, testMs);

const [at, lastAt] = [() => one(0), () => one(3)];

function one(index: number): Gateway {
  const gateway = gateways[index];
  if (!gateway) throw new Error(`There is no process ${index}.`);
  return gateway;
}

async function change(gateway: Gateway, method: string, path: string, body?: object) {
  const { status, text, body: json } = await gateway.admin(method, `/admin/v1${path}`, body);
  expect([status < 300, text]).toEqual([true, text]);
  expect(text).not.toContain('sk-scripted');
  return fieldsOf(json.data);
}

interface Charged {
  readonly cost: number;
  readonly model: unknown;
  readonly requestId: string;
}

/** Sends 2 prompt tokens, which get 6 completion tokens. Returns undefined if it is rejected. */
async function chat(gateway: Gateway, name = 'fast'): Promise<Charged | undefined> {
  const messages = [{ role: 'user', content: 'one two' }];
  const { status, body, headers } = await gateway.chat({ model: name, messages });
  if (status !== 200) return undefined;
  const { cost } = fieldsOf(body.usage);
  charged += Number(cost);
  const requestId = headers.get('x-request-id') ?? '';
  return { cost: Number(cost), model: body.model, requestId };
}

/** Waits until every process answers as expected. */
function allAnswer(isExpected: (answer: Charged) => boolean): Promise<unknown> {
  return Promise.all(
    gateways.map((gateway) =>
      waitUntil(
        async () => {
          const answer = await chat(gateway);
          return answer && isExpected(answer);
        },
        { everyMs: 100 },
      ),
    ),
  );
}

const model = (name: string) => ({
  name: 'Scripted',
  input_modalities: ['text'],
  output_modalities: ['text'],
  endpoints: [{ provider: 'scripted', model: name, pricing: { prompt: '100', completion: '100' } }],
});

// Credits are millionths of a dollar. The plan multiplies by 1.5 and adds 50 credits per request.
const before = { pricing: { prompt: '1', completion: '2' }, cost: (2 * 1 + 6 * 2) * 1.5 + 50 };
const after = { pricing: { prompt: '3', completion: '5' }, cost: (2 * 3 + 6 * 5) * 1.5 + 50 };

test(
  'a provider, its keys, a model, an alias, prices, and a margin made over HTTP charge on all of them',
  async () => {
    const api_keys = Object.entries(apiKeys).map(([name, key]) => ({ name, key }));
    const provider = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_keys };
    const plan = { factor_basis_points: 15_000, surcharge: { request: '0.00005' } };
    await change(at(), 'PUT', '/providers/scripted', provider);
    await change(at(), 'PUT', '/models/acme/scripted', model('chat'));
    await change(at(), 'PUT', '/aliases/fast', { models: ['acme/scripted'] });
    await change(at(), 'PUT', '/plans/retail', plan);
    await change(at(), 'PUT', '/settings/billing.default_plan', { value: 'retail' });
    const price = { model: 'acme/scripted', provider: 'scripted', pricing: before.pricing };
    await change(at(), 'POST', '/prices', price);
    await allAnswer(({ cost }) => cost === before.cost);

    const from = Date.now() + 3_000;
    const name = `acme/scripted@scripted@${new Date(from).toISOString()}`;
    const scheduled = await change(lastAt(), 'PUT', `/prices/${name}`, { pricing: after.pricing });
    expect(scheduled.state).toBe('scheduled');
    const answers: Charged[] = [];
    await allAnswer((answer) => {
      answers.push(answer);
      return answer.cost === after.cost;
    });
    for (const { cost, requestId } of answers) {
      const receipt = await waitUntil(async () => {
        const { body } = await at().call('GET', `/v1/customer/logs/${requestId}`, {
          key: at().keys.api,
        });
        return fieldsOf(body.data).created_at ? fieldsOf(body.data) : undefined;
      });
      const isAfter = Date.parse(String(receipt.created_at)) >= from;
      expect([cost, receipt.cost]).toEqual(Array(2).fill((isAfter ? after : before).cost));
    }
    expect(answers.some(({ cost }) => cost === before.cost)).toBe(true);
    const sent = new Set(upstream.requests.map(({ headers }) => headers.authorization));
    expect(sent).toEqual(new Set(Object.values(apiKeys).map((key) => `Bearer ${key}`)));
  },
  testMs,
);

test(
  'a provider with a wildcard serves models of the catalog at their prices, and no others',
  async () => {
    upstream.script('proxied-gpt-5-mini', chatAnswer(words(6)));
    const serves = [{ match: 'openai/gpt-5*', model: 'proxied-gpt-5*' }];
    await change(lastAt(), 'PATCH', '/providers/scripted', { serves });
    const id = 'openai/gpt-5-mini';
    const answer = await waitUntil(() => chat(at(), id));
    expect(answer.model).toBe(id);
    const list = await at().call('GET', '/v1/models', { key: at().keys.api });
    const listed = objectsIn(list.body.data).find((one) => one.id === id);
    const { prompt, completion, request } = fieldsOf(listed?.pricing);
    const usd = 2 * Number(prompt) + 6 * Number(completion) + Number(request);
    expect(answer.cost).toBe(Math.ceil(Number((usd * 1_000_000).toFixed(6))));
    const messages = [{ role: 'user', content: 'one two' }];
    const unpriced = await at().chat({ model: 'openai/gpt-5-unpriced', messages });
    expect([unpriced.status, unpriced.error.message]).toEqual([
      ...[404, expect.stringContaining('There is no model "openai/gpt-5-unpriced"')],
    ]);
  },
  testMs,
);

test(
  'a kill right after changes and charges loses none of them',
  async () => {
    await change(one(0), 'PUT', '/models/acme/other', model('other'));
    await change(one(1), 'PUT', '/aliases/fast', { models: ['acme/other', 'acme/scripted'] });
    // They are killed when they have answered, before others have read the change.
    await Promise.all([chat(one(0)), chat(one(1))]);
    const killed = gateways.slice(0, 2);
    await Promise.all(killed.map((gateway) => gateway.kill9()));
    gateways = gateways.slice(2);
    await allAnswer((answer) => answer.model === 'acme/other');
    // A process books what the journal in its folder still has.
    gateways.unshift(...(await Promise.all(killed.map((gateway) => gateway.another()))));
    await allAnswer(({ model: answering, cost }) => answering === 'acme/other' && cost === 1_250);
    await waitUntil(async () => (await at().balance()) === creditsAtStart - charged);
  },
  testMs,
);

/** What an explanation says about the configuration, without the health that a process measures. */
async function explanations(gateway: Gateway): Promise<unknown> {
  const user = { role: 'user', content: 'one two' };
  const requests = [
    ['chat/completions', { model: 'fast', messages: [user], seed: 7 }],
    ['messages', { model: 'acme/scripted', messages: [user], max_tokens: 99 }],
    ['responses', { model: 'fast', input: 'one two', provider: { max_price: { prompt: 9 } } }],
  ] as const;
  const explained = requests.map(async ([endpoint, body]) => {
    const path = `/route/explain?endpoint=${endpoint}`;
    const data = await change(gateway, 'POST', path, body);
    const plan = objectsIn(data.plan).map((offer) => {
      const { circuit: _, first_byte_ms: __, tokens_per_second: ___, ...rest } = offer;
      return rest;
    });
    expect(plan.length).toBeGreaterThan(0);
    return { ...data, plan };
  });
  return Promise.all(explained);
}

test(
  'an export gives another store the same routes, prices, and margins, without secrets in the file',
  async () => {
    const exported = await at().command('config', 'export');
    expect([exported.exitCode, exported.stdout]).toEqual([0, expect.any(String)]);
    for (const key of Object.values(apiKeys)) expect(exported.stdout).not.toContain(key);
    const folder = newFolder();
    const path = join(folder, 'store.yaml');
    writeFileSync(path, exported.stdout);
    const env = {
      ...secretKey,
      SCRIPTED_API_KEYS_FIRST_KEY: apiKeys.first,
      SCRIPTED_API_KEYS_SECOND_KEY: apiKeys.second,
    };
    const imported = await run(['config', 'import', path], { dataDir: folder, env });
    expect([imported.exitCode, imported.stderr]).toEqual([0, '']);
    await using other = await startGateway({ dataDir: folder, env: secretKey });
    expect(await explanations(other)).toEqual(await explanations(at()));
    const requests = upstream.requests.length;
    expect(await chat(other)).toMatchObject({ cost: 1_250, model: 'acme/other' });
    const authorization = upstream.requests[requests]?.headers.authorization;
    expect(Object.values(apiKeys).map((key) => `Bearer ${key}`)).toContain(String(authorization));
  },
  testMs,
);
