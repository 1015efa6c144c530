/** Requests with a tenant's own provider key (BYOK): isolation, fallback, fees, and secrecy. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Vault } from '../../src/auth/vault.ts';
import { isObject } from '../../src/core/json.ts';
import { secretKeysOf } from '../../src/store/secret-key.ts';
import { ActiveClock } from '../support/active-clock.ts';
import { type ByokTenant, dataOf, makeByokTenant } from '../support/byok.ts';
import {
  chatAnswer,
  type FakeUpstream,
  startFakeUpstream,
  status,
  status429,
  status500,
  withoutUsage,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const pricing = { prompt: '3', completion: '15' };
const counted = chatAnswer('counted', { usage: { prompt: 1_001, completion: 333 } });

let north: FakeUpstream;
let south: FakeUpstream;
let gateway: InProcessGateway;
let tenants = 0;

beforeAll(async () => {
  north = startFakeUpstream();
  south = startFakeUpstream();
  gateway = await InProcessGateway.start(settings());
});
afterAll(async () => {
  await gateway.stop();
  north.stop();
  south.stop();
});
beforeEach(() => {
  north.reset();
  south.reset();
});

function settings() {
  const at = ({ url }: FakeUpstream, name: string) => ({
    dialect: 'openai',
    base_url: `${url}/v1`,
    api_key: `sk-operator-${name}`,
  });
  return {
    providers: {
      north: { ...at(north, 'north'), headers: { 'x-operator': 'operator-secret' } },
      south: at(south, 'south'),
      private: { ...at(north, 'private'), shared: false },
      anywhere: { ...at(north, 'anywhere'), byok_base_url: true },
      elsewhere: { ...at(north, 'elsewhere'), dialect: 'anthropic', byok_base_url: true },
    },
    models: [
      chatModel('acme/chat', [{ provider: 'north', model: 'chat', pricing }]),
      chatModel('acme/two', [
        { provider: 'north', model: 'two', priority: 0 },
        { provider: 'south', model: 'two', priority: 1 },
      ]),
      chatModel('acme/private', [{ provider: 'private', model: 'private' }]),
      chatModel('acme/anywhere', [{ provider: 'anywhere', model: 'anywhere' }]),
      chatModel('acme/elsewhere', [{ provider: 'elsewhere', model: 'elsewhere' }]),
      chatModel('acme/embed', [{ provider: 'anywhere', model: 'embed' }], {
        features: ['embeddings'],
      }),
      chatModel('acme/voice', [{ provider: 'anywhere', model: 'voice' }], {
        output_modalities: ['audio'],
        features: ['speech'],
      }),
    ],
  };
}

const newTenant = (credits?: number): Promise<ByokTenant> =>
  makeByokTenant(gateway, `t${++tenants}`, credits);

/** Returns the credentials that a provider received, in order. */
function receivedKeys(at: FakeUpstream): string[] {
  return at.requests.map(({ headers }) => (headers.authorization ?? 'none').replace('Bearer ', ''));
}

/**
 * Polls until a change in the store takes effect, which the documentation promises within 1 second.
 * Without a pause between polls, a fast machine would exceed the key's 600 requests per minute.
 */
async function within(ms: number, isDone: () => Promise<boolean>): Promise<void> {
  using activeClock = new ActiveClock();
  for (;;) {
    // Read the clock before polling: a poll that started in time counts even if it takes long.
    const isLate = activeClock.ms > ms;
    if (await isDone()) return;
    if (isLate) throw new Error(`The change didn't take effect within ${ms} ms.`);
    await Bun.sleep(10);
  }
}

describe('BYOK credential', () => {
  test('is stored, shown without its key, replaced, and deleted', async () => {
    const tenant = await newTenant();
    const path = '/api/v1/byok/north';
    expect((await tenant.manage('GET', path)).status).toBe(404);
    const put = await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789abcd' });
    expect(put.status).toBe(200);
    const object = {
      provider: 'north',
      label: '•••abcd',
      mode: 'byok_first',
      base_url: null,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      updated_at: expect.stringMatching(/^\d{4}-.*Z$/),
    };
    expect(put.json).toEqual({ data: object });
    expect((await tenant.manage('GET', path)).json).toEqual({ data: object });
    expect((await tenant.manage('GET', '/api/v1/byok')).json.data).toEqual([object]);
    const only = await tenant.setProviderKey('north', { api_key: 'short', mode: 'byok_only' });
    expect(only.json.data).toMatchObject({ label: '•••', mode: 'byok_only' });
    const reset = await tenant.setProviderKey('north', {
      api_key: 'short',
      mode: null,
      base_url: null,
    });
    expect(reset.json.data).toMatchObject({ label: '•••', mode: 'byok_first' });
    expect((await tenant.manage('DELETE', path)).json).toEqual({ deleted: true });
    expect((await tenant.manage('DELETE', path)).status).toBe(404);
    expect((await tenant.manage('GET', '/api/v1/byok')).json.data).toEqual([]);
  });

  test.each([
    ['north', {}, 'api_key'],
    ['north', { api_key: '' }, 'api_key'],
    ['north', { api_key: 'sk-two words' }, 'api_key'],
    ['north', { api_key: 'sk-line\r\nx: y' }, 'api_key'],
    ['north', { api_key: 'sk-ünïcode' }, 'api_key'],
    ['north', { api_key: 7 }, 'api_key'],
    ['north', { api_key: 'sk-a', mode: 'sometimes' }, 'mode'],
    ['north', { api_key: 'sk-a', secret: 1 }, 'secret'],
    ['north', { api_key: 'sk-a', base_url: 'https://1.1.1.1/v1' }, 'base_url'],
    ['anywhere', { api_key: 'sk-a', base_url: 'https://1.1.1.1/v1#x' }, 'base_url'],
    ['anywhere', { api_key: 'sk-a', base_url: 'https://1.1.1.1/v1?a=b' }, 'base_url'],
    ['anywhere', { api_key: 'sk-a', base_url: 'https://me:pw@1.1.1.1/v1' }, 'base_url'],
    ['anywhere', { api_key: 'sk-a', base_url: 'file:///etc/passwd' }, 'base_url'],
  ])('for %s is rejected with an invalid body: %j', async (provider, body, param) => {
    const reply = await (await newTenant()).setProviderKey(provider, body);
    expect(reply.status).toBe(400);
    expect(reply.error.param).toBe(param);
    if (param === 'api_key') expect(reply.text).not.toContain('sk-');
  });

  test('has up to 16,384 characters', async () => {
    const tenant = await newTenant();
    const longest = 'x'.repeat(16_384);
    expect((await tenant.setProviderKey('north', { api_key: longest })).status).toBe(200);
    expect((await tenant.setProviderKey('north', { api_key: `${longest}x` })).status).toBe(400);
    // A short-lived Bedrock key is about this long. Many servers reject a header of 16,384 bytes.
    const bedrockLength = 'x'.repeat(4_000);
    await tenant.setProviderKey('north', { api_key: bedrockLength });
    await tenant.chat();
    expect(receivedKeys(north)).toEqual([bedrockLength]);
  });

  test('returns 404 for an unknown provider and suggests a similar name', async () => {
    const tenant = await newTenant();
    const put = await tenant.setProviderKey('norht', { api_key: 'sk-a' });
    expect(put.status).toBe(404);
    expect(put.error.message).toBe('There is no provider "norht"; did you mean "north"?');
    expect((await tenant.manage('DELETE', '/api/v1/byok/demo')).status).toBe(404);
    expect((await tenant.setProviderKey('__proto__', { api_key: 'sk-a' })).status).toBe(404);
  });
});

describe('BYOK requests', () => {
  test("of 2 concurrent tenants never use each other's key", async () => {
    const [one, other, neither] = [await newTenant(), await newTenant(), await newTenant()];
    await one.setProviderKey('north', { api_key: 'sk-own-of-one-0123456789' });
    await other.setProviderKey('north', { api_key: 'sk-own-of-other-0123456789' });
    const keys = new Map([
      [one.id, 'sk-own-of-one-0123456789'],
      [other.id, 'sk-own-of-other-0123456789'],
      [neither.id, 'sk-operator-north'],
    ]);
    const calls = Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? one : other));
    const all = [...calls, ...Array.from({ length: 20 }, () => neither)];
    const replies = await Promise.all(
      all.map(({ chat, id }, i) =>
        chat({ messages: [{ role: 'user', content: id }], stream: i % 3 === 0 }),
      ),
    );
    expect(replies.filter((reply) => reply.status !== 200)).toEqual([]);
    expect(north.requests.length).toBe(220);
    for (const { json, headers } of north.requests) {
      const messages = isObject(json) && Array.isArray(json.messages) ? json.messages : [];
      const [message] = messages.filter(isObject);
      expect(headers.authorization).toBe(`Bearer ${keys.get(String(message?.content))}`);
      // The operator's headers belong to the operator's account.
      const isOperators = headers.authorization === 'Bearer sk-operator-north';
      expect(headers['x-operator']).toBe(isOperators ? 'operator-secret' : undefined);
    }
  });

  test('fall back to shared capacity with byok_first', async () => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', [status(401), counted]);
    const reply = await tenant.chat();
    expect(reply.status).toBe(200);
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789', 'sk-operator-north']);
    const record = await gateway.record(reply.requestId, tenant.id);
    expect(record).toMatchObject({
      trafficMode: 'shared',
      charges: { modelCharge: 7_998, byokPlatformFee: 0 },
      note: null,
    });
  });

  test('fall back to shared capacity if the account has no access to the model', async () => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', [status(404, 'The model does not exist'), counted]);
    expect((await tenant.chat()).status).toBe(200);
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789', 'sk-operator-north']);
  });

  test.each([
    ['fails', status500(), [502, null]],
    ['is rate limited', status429('7'), [429, '7']],
    ['has no access to the model', status(404, 'The model does not exist'), [400, null]],
  ])('report the failure of shared capacity if it %s', async (_, shared, expected) => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', [status(404, 'The model does not exist'), shared]);
    const reply = await tenant.chat();
    expect([reply.status, reply.headers.get('retry-after')]).toEqual(expected);
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789', 'sk-operator-north']);
  });

  test('never fall back with byok_only', async () => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789', mode: 'byok_only' });
    north.script('chat', [status(401), counted]);
    const reply = await tenant.chat();
    expect(reply.status).toBe(502);
    expect(reply.error.message).toBe('The provider rejected your account.');
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789']);
  });

  test.each([
    ['byok', 'byok_only', [status(401)]],
    ['shared', 'byok_first', [status(401), status500()]],
  ] as const)(
    'log a failed request with the traffic mode of its last attempt: %s',
    async (trafficMode, mode, answers) => {
      const tenant = await newTenant();
      await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789', mode });
      north.script('chat', [...answers]);
      const { requestId } = await tenant.chat();
      expect(await gateway.record(requestId, tenant.id)).toMatchObject({
        status: 'error',
        provider: null,
        trafficMode,
      });
      const receipt = dataOf(await tenant.manage('GET', `/v1/customer/logs/${requestId}`));
      expect(receipt).toMatchObject({ traffic_mode: trafficMode, cost: 0, not_charged: 0 });
    },
  );

  test("show provider messages only about the tenant's own account", async () => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', [status(401, 'This key ended in May.'), status(401, 'Acme owes us 12.')]);
    const { requestId } = await tenant.chat();
    const receipt = dataOf(await tenant.manage('GET', `/v1/customer/logs/${requestId}`));
    expect(receipt.attempts).toMatchObject([
      { own_account: true, outcome: 'credential', message: 'This key ended in May.' },
      { outcome: 'credential', message: null },
    ]);
    await tenant.chat();
    // The operator's log names only the operator's account, and not for every request.
    const warnings = gateway.logLines.filter((line) => line.includes('provider_account_rejected'));
    expect(warnings.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', provider: 'north', reason: 'credential' },
    ]);
  });

  test("use the operator's account again once the credential is deleted", async () => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    await tenant.chat();
    await tenant.manage('DELETE', '/api/v1/byok/north');
    await tenant.chat();
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789', 'sk-operator-north']);
  });

  test('with a rejected key do not open the circuit for other tenants', async () => {
    const [bad, good, plain] = [await newTenant(), await newTenant(), await newTenant()];
    await bad.setProviderKey('north', { api_key: 'sk-bad-0123456789', mode: 'byok_only' });
    await bad.setProviderKey('south', { api_key: 'sk-south-0123456789' });
    await good.setProviderKey('north', { api_key: 'sk-good-0123456789' });
    const two = { model: 'acme/two' };
    north.script('two', [...Array.from({ length: 6 }, () => status(401)), counted]);
    for (let i = 0; i < 6; i++) expect((await bad.chat(two)).status).toBe(200);
    // The sixth request found the tenant's circuit open and tried the other provider first.
    expect(north.requests.length).toBe(5);
    expect(south.requests.length).toBe(6);
    north.script('two', counted);
    expect((await good.chat(two)).status).toBe(200);
    expect((await plain.chat(two)).status).toBe(200);
    expect(receivedKeys(north).slice(5)).toEqual(['sk-good-0123456789', 'sk-operator-north']);
    expect(south.requests.length).toBe(6);
    // A new key is a new credential, so the gateway tries it immediately.
    await bad.setProviderKey('north', { api_key: 'sk-fixed-0123456789', mode: 'byok_only' });
    expect((await bad.chat(two)).status).toBe(200);
    expect(receivedKeys(north).at(-1)).toBe('sk-fixed-0123456789');
  });

  test('reach providers without shared capacity', async () => {
    const [owner, plain] = [await newTenant(), await newTenant()];
    await owner.setProviderKey('private', { api_key: 'sk-own-0123456789' });
    const ids = async ({ key }: ByokTenant) => {
      const { json } = await gateway.get('/v1/models', { key });
      const models = Array.isArray(json.data) ? json.data.filter(isObject) : [];
      return models.map(({ id }) => id);
    };
    const body = { model: 'acme/private' };
    const shared = await ids(plain);
    expect(shared).toContain('acme/chat');
    expect(shared).not.toContain('acme/private');
    expect((await ids(owner)).toSorted()).toEqual([...shared, 'acme/private'].toSorted());
    expect((await gateway.get('/v1/models/acme/private', { key: plain.key })).status).toBe(404);
    expect((await gateway.get('/v1/models/acme/private', { key: owner.key })).status).toBe(200);
    const rejected = await plain.chat(body);
    expect(rejected.status).toBe(404);
    expect(rejected.error.message).toContain('No provider of the model "acme/private"');
    expect((await owner.chat(body)).status).toBe(200);
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789']);
  });
});

describe('BYOK charge', () => {
  async function balance({ id, manage }: ByokTenant): Promise<unknown> {
    // A customer read books pending settlements first.
    await manage('GET', '/v1/customer/logs');
    const { admin: key } = gateway.keys;
    return dataOf(await gateway.get(`/admin/v1/tenants/${id}/credits`, { key })).total;
  }

  test('is the platform fee on the list price, in a separate field', async () => {
    const tenant = await newTenant(10_000);
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', counted);
    const reply = await tenant.chat({ max_tokens: 400 });
    // The list price is 1,001 × 3 + 333 × 15 = 7,998 credits, of which 5% are 399.9.
    expect(reply.json.usage).toMatchObject({ cost: 400 });
    const record = await gateway.record(reply.requestId, tenant.id);
    expect(record.trafficMode).toBe('byok');
    expect(record.charges).toEqual({
      modelCharge: 0,
      byokPlatformFee: 400,
      managedToolFee: 0,
      agentRuntimeFee: 0,
    });
    expect(record.prices).toMatchObject({ ...pricing, byok_fee_basis_points: '500' });
    expect(record.note).toBe(
      'The provider bills your own account for this usage. Only the platform fee is charged.',
    );
    expect(await balance(tenant)).toBe(9_600);
  });

  test("has a note about the tenant's account, and about the estimate if usage is missing", async () => {
    const tenant = await newTenant();
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', withoutUsage());
    const reply = await tenant.chat({ stream: true });
    const record = await gateway.record(reply.requestId, tenant.id);
    expect(record.usageEstimated).toBe(true);
    expect(record.charges.modelCharge).toBe(0);
    expect(record.charges.byokPlatformFee).toBeGreaterThan(0);
    expect(record.note).toMatch(/your own account.* fee is charged\. .* an estimate\.$/);
  });

  test('is 0 for a failed request', async () => {
    const tenant = await newTenant(100);
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789', mode: 'byok_only' });
    north.script('chat', status500());
    expect((await tenant.chat({ max_tokens: 100 })).status).toBe(502);
    expect(await balance(tenant)).toBe(100);
  });

  test("requires credits for the fee with the tenant's own key, and for the full price without one", async () => {
    const tenant = await newTenant(100);
    // The wallet can't pay the price of 16 tokens, but it can pay the fee on 100.
    expect((await tenant.chat({ max_tokens: 16 })).status).toBe(402);
    await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
    north.script('chat', [
      chatAnswer('ok', { usage: { prompt: 10, completion: 100 } }),
      status(401),
    ]);
    const reply = await tenant.chat({ max_tokens: 100 });
    expect(reply.status).toBe(200);
    expect(isObject(north.requests[0]?.json) && north.requests[0].json.max_tokens).toBe(100);
    // The list price is 10 × 3 + 100 × 15 = 1,530 credits, of which 5% are 76.5.
    expect(await balance(tenant)).toBe(23);
    // The tenant can't pay for shared capacity, so there is no fallback.
    expect((await tenant.chat({ max_tokens: 16 })).status).toBe(502);
    expect(receivedKeys(north)).toEqual(['sk-own-0123456789', 'sk-own-0123456789']);
    expect(await balance(tenant)).toBe(23);
  });

  test('needs no credits if the BYOK fee is 0', async () => {
    const free = await InProcessGateway.start({
      ...settings(),
      billing: { byok_fee_basis_points: 0 },
    });
    try {
      const tenant = await makeByokTenant(free, 'poor', 0);
      expect((await tenant.chat()).status).toBe(402);
      await tenant.setProviderKey('north', { api_key: 'sk-own-0123456789' });
      north.script('chat', counted);
      const [full, stream] = [await tenant.chat(), await tenant.chat({ stream: true })];
      expect([full.status, stream.status]).toEqual([200, 200]);
      expect(stream.text).toContain('[DONE]');
      const record = await free.record(full.requestId, 'poor');
      expect(record).toMatchObject({ trafficMode: 'byok', charges: { byokPlatformFee: 0 } });
    } finally {
      await free.stop();
    }
  });
});

describe('BYOK base URL', () => {
  const body = { model: 'acme/anywhere' };

  test.each([
    'http://127.0.0.1:PORT/v1',
    'http://localhost:PORT/v1',
    'http://2130706433:PORT/v1',
    'http://0x7f.1:PORT/v1',
    'http://0:PORT/v1',
    'http://[::1]:PORT/v1',
    'http://[::ffff:127.0.0.1]:PORT/v1',
    'http://[64:ff9b::7f00:1]:PORT/v1',
    'http://①②⑦.0.0.1:PORT/v1',
    'http://127.0.0.1.:PORT/v1',
    'http://169.254.169.254/latest',
    'http://metadata.google.internal/',
    'https://10.0.0.1/v1',
    'https://1.1.1.1:6379/v1',
  ])('is rejected when saved: %s', async (pattern) => {
    const tenant = await newTenant();
    const base_url = pattern.replace('PORT', String(north.port));
    const reply = await tenant.setProviderKey('anywhere', {
      api_key: 'sk-own-0123456789',
      base_url,
    });
    expect(reply.status).toBe(400);
    expect(reply.error).toMatchObject({ param: 'base_url', type: 'invalid_request_error' });
    expect((await tenant.manage('GET', '/api/v1/byok')).json.data).toEqual([]);
    expect(north.requests.length).toBe(0);
  });

  test('is stored if it is public', async () => {
    const tenant = await newTenant();
    const base_url = 'https://1.1.1.1/v1/';
    const reply = await tenant.setProviderKey('anywhere', {
      api_key: 'sk-own-0123456789',
      base_url,
    });
    expect(dataOf(reply).base_url).toBe('https://1.1.1.1/v1');
  });

  test('is rejected without backtracking if it has 200,000 characters', async () => {
    const tenant = await newTenant();
    const base_url = `https://1.1.1.1${'/'.repeat(200_000)}x`;
    const reply = await tenant.setProviderKey('anywhere', {
      api_key: 'sk-own-0123456789',
      base_url,
    });
    expect(reply.error).toMatchObject({ param: 'base_url', type: 'invalid_request_error' });
    expect(reply.text.length).toBeLessThan(1_000);
  });

  /** Stores a base URL that the API would reject and waits until the gateway uses it. */
  async function withPrivateAddress(provider: string, model: string): Promise<ByokTenant> {
    const tenant = await newTenant();
    await tenant.chat({ model });
    const vault = await Vault.open({
      store: gateway.store.credentials,
      secrets: secretKeysOf({ secretKey: null, dataDir: gateway.folder }),
      isStart: false,
    });
    const credential = {
      tenantId: tenant.id,
      provider,
      apiKey: 'sk-own-0123456789',
      baseUrl: `http://127.0.0.1:${south.port}/v1`,
      mode: 'byok_only',
    } as const;
    await vault.save(credential, Date.now());
    await within(1_000, async () => (await tenant.chat({ model })).text.includes('was rejected'));
    return tenant;
  }

  const rejection =
    'The provider failed: The base URL of your credential was rejected: The address is not public.';

  test.each([
    ['/v1/chat/completions', { ...body, messages: [{ role: 'user', content: 'Hello!' }] }],
    ['/v1/embeddings', { model: 'acme/embed', input: 'Hello!' }],
    ['/v1/audio/speech', { model: 'acme/voice', input: 'Hello!', voice: 'alloy' }],
  ])('is rejected when used by %s, even if it was stored', async (path, requestBody) => {
    const { key } = await withPrivateAddress('anywhere', 'acme/anywhere');
    const reply = await gateway.post(requestBody, { path, key });
    expect([reply.status, reply.error.message]).toEqual([502, rejection]);
    expect(south.requests.length).toBe(0);
  });

  test('is not called to count tokens, even if it was stored', async () => {
    const { key } = await withPrivateAddress('elsewhere', 'acme/elsewhere');
    const request = { model: 'acme/elsewhere', messages: [{ role: 'user', content: 'Hello!' }] };
    const reply = await gateway.post(request, { path: '/v1/messages/count_tokens', key });
    expect(reply.status).toBe(200);
    expect(south.requests.length).toBe(0);
  });
});

describe('BYOK secrets', () => {
  test("can't be decrypted in another tenant's row", async () => {
    const [victim, thief] = [await newTenant(), await newTenant()];
    await victim.setProviderKey('north', { api_key: 'sk-victim-0123456789' });
    await thief.setProviderKey('north', { api_key: 'sk-thief-0123456789', mode: 'byok_only' });
    expect((await thief.chat()).status).toBe(200);
    const { write } = gateway.store.database;
    const [stolen] = await gateway.store.credentials.list(victim.id);
    await write
      .updateTable('byok_credentials')
      .set({ ciphertext: stolen?.ciphertext ?? new Uint8Array() })
      .where('tenant_id', '=', thief.id)
      .execute();
    // Any change of the directory makes the processes reload it.
    await victim.manage('POST', '/api/v1/keys', { name: 'a change' });
    await within(1_000, async () => (await thief.chat()).status === 404);
    expect(receivedKeys(north)).not.toContain('sk-victim-0123456789');
    const fields = { event: 'credential_unreadable', tenant: thief.id, provider: 'north' };
    const lines = gateway.logLines.map((line): unknown => JSON.parse(line));
    expect(lines).toContainEqual(expect.objectContaining(fields));
    // Other tenants aren't affected.
    expect((await victim.chat()).status).toBe(200);
    expect(receivedKeys(north).at(-1)).toBe('sk-victim-0123456789');
  });

  test('appear in no response, no log line, and no file', async () => {
    const tenant = await newTenant();
    const marker = 'sk-marker-7f3a9c51e2';
    const replies = [await tenant.setProviderKey('north', { api_key: marker })];
    const message = `Incorrect API key provided: ${marker}`;
    north.script('chat', [
      chatAnswer('fine'),
      status(401, message),
      status500(),
      status(400, message),
      status(500, message),
    ]);
    for (let i = 0; i < 3; i++) replies.push(await tenant.chat());
    replies.push(await tenant.chat({ stream: true }));
    replies.push(await tenant.setProviderKey('norht', { api_key: marker }));
    replies.push(await tenant.setProviderKey('north', { api_key: marker, mode: 'wrong' }));
    replies.push(await tenant.setProviderKey('north', { api_key: `${marker} ` }));
    const reads = ['/api/v1/byok', '/api/v1/byok/north', '/api/v1/keys', '/v1/customer/logs'];
    for (const path of reads) replies.push(await tenant.manage('GET', path));
    replies.push(await gateway.get(`/v1/generation?id=${replies[1]?.requestId}`, tenant));
    expect(receivedKeys(north)).toContain(marker);
    for (const reply of replies) {
      expect(reply.text).not.toContain(marker);
      expect(JSON.stringify([...reply.headers])).not.toContain(marker);
    }
    expect(gateway.logLines.join('')).not.toContain(marker);
    const files = readdirSync(gateway.folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    expect(files.map((file) => file.slice(gateway.folder.length))).toEqual(
      expect.arrayContaining(['/tollgate.db', '/secret.key']),
    );
    expect(files.some((file) => file.includes('journal'))).toBe(true);
    for (const file of files)
      expect([file, readFileSync(file).includes(marker)]).toEqual([file, false]);
  });
});
