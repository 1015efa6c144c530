/** Operators rotate the keys of providers without failures, and test providers. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { ConfigVault } from '../../src/control/config-vault.ts';
import { removeOldKeys } from '../../src/control/key-rotation.ts';
import { fieldsOf, itemsOf, objectsIn } from '../../src/core/json.ts';
import { secretKeysOf } from '../../src/store/secret-key.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { keyNamed, keyText, startKeyedProvider } from '../support/keyed-provider.ts';
import { pricing } from '../support/two-providers.ts';

const vendor = startKeyedProvider();
let gateway: InProcessGateway;

async function send(
  method: string,
  path: string,
  body?: object,
  more: Record<string, string> = {},
) {
  const authorization = `Bearer ${gateway.keys.admin}`;
  const response = await fetch(`${gateway.url}/admin/v1/${path}`, {
    method,
    headers: { authorization, 'content-type': 'application/json', ...more },
    ...(body && { body: JSON.stringify(body) }),
  });
  const { data, error } = fieldsOf(await response.json());
  return { status: response.status, data: fieldsOf(data), error: fieldsOf(error), list: data };
}

const provider = { dialect: 'openai', base_url: vendor.url };
const chat = (model = 'test/single') =>
  gateway.post({ model, messages: [{ role: 'user', content: 'Hello!' }] });

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    providers: { locked: { ...provider, api_key: keyText('file') } },
    models: [chatModel('test/locked', [{ provider: 'locked', model: 'chat', pricing }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  vendor.stop();
});
beforeEach(async () => {
  vendor.reset();
  const api_keys = [keyNamed('a', { weight: 3 }), keyNamed('b')];
  await send('PUT', 'providers/single', { ...provider, api_key: keyText('old') });
  await send('PUT', 'providers/several', { ...provider, api_keys });
  await send('PUT', 'providers/none', { ...provider, api_key: null });
  for (const name of ['single', 'several']) {
    const model = chatModel(`test/${name}`, [{ provider: name, model: 'chat', pricing }]);
    await send('PUT', `models/test/${name}`, model);
  }
});

const rotation = (name: string) => `providers/${name}/rotate`;
const configOf = async (name: string) =>
  fieldsOf((await send('GET', `providers/${name}`)).data.config);
const keysOf = async (name: string) =>
  objectsIn((await send('GET', `providers/${name}`)).data.keys).map((key) => ({ ...key }));

describe('POST /admin/v1/providers/:name/rotate', () => {
  test('replaces the key without a failure, even if the provider does not accept it yet', async () => {
    let isRunning = true;
    const statuses: number[] = [];
    const client = async () => {
      while (isRunning) statuses.push((await chat()).status);
    };
    const clients = Array.from({ length: 4 }, client);
    vendor.rejections.set('new', { status: 401, message: 'Incorrect API key provided.' });
    const rotated = await send('POST', rotation('single'), { api_key: keyText('new') });
    expect(rotated.status).toBe(200);
    vendor.reset();
    vendor.rejections.set('new', { status: 401, message: 'Incorrect API key provided.' });
    await chat();
    expect(await keysOf('single')).toMatchObject([
      { name: 'api_key', state: 'set_aside', message: 'Incorrect API key provided.', until: null },
      { name: 'api_key (previous)', state: 'available', until: expect.any(String) },
    ]);

    // Once the provider accepts it, only the new key is used.
    vendor.rejections.clear();
    await send('PATCH', 'providers/single', { timeout_ms: 60_000 });
    await chat();
    vendor.used.length = 0;
    for (let i = 0; i < 10; i++) await chat();
    isRunning = false;
    await Promise.all(clients);
    expect(new Set(vendor.used)).toEqual(new Set(['new']));
    expect(statuses.length).toBeGreaterThan(0);
    expect(new Set(statuses)).toEqual(new Set([200]));
  });

  test('keeps the previous key until its time is over, and then deletes it', async () => {
    const before = Date.now();
    const body = { api_key: keyText('new'), overlap_seconds: 3600 };
    const { data } = await send('POST', rotation('single'), body);
    const { previous_key } = fieldsOf(data.config);
    const { key, until } = fieldsOf(previous_key);
    expect(key).toBe('•••6789');
    expect(Date.parse(String(until)) - before).toBeWithin(3_600_000, 3_660_000);

    // Another rotation ends the overlap of the first.
    await send('POST', rotation('single'), { ...body, api_key: keyText('newer') });
    vendor.rejections.set('newer', { status: 403, message: 'No.' });
    expect((await chat()).status).toBe(200);
    expect(vendor.used).toEqual(['newer', 'new']);

    // After its time, the previous key isn't used, and it is removed from the store.
    const over = { previous_key: { until: '2020-01-01T00:00:00Z' } };
    expect((await send('PATCH', 'providers/single', over)).status).toBe(200);
    vendor.used.length = 0;
    expect((await chat()).status).toBe(502);
    expect(new Set(vendor.used)).toEqual(new Set(['newer']));
    expect(await keysOf('single')).toMatchObject([{}, { state: 'disabled' }]);
    const file = { dataDir: gateway.folder, secretKey: null, previousSecretKey: null };
    const vault = new ConfigVault(secretKeysOf(file));
    const store = gateway.store.configObjects;
    const cleanup = {
      store,
      vault: () => vault,
      now: Date.now,
      current: () => ({ providers: new Map() }),
    };
    await removeOldKeys(cleanup);
    await removeOldKeys(cleanup);
    expect(await configOf('single')).not.toHaveProperty('previous_key');
    const log = objectsIn((await send('GET', 'audit?target=single')).list);
    expect(log.slice(0, 4).map(({ action, actor }) => [action, actor])).toEqual([
      ['provider.drop_key', 'tollgate'],
      ['provider.update', 'admin'],
      ['provider.rotate_key', 'admin'],
      ['provider.rotate_key', 'admin'],
    ]);
    const { objects } = await store.read();
    expect(JSON.stringify([log, objects])).not.toContain('0123456789');
  });

  test('replaces one of several keys at once, with its weight and limits', async () => {
    const body = { api_key: keyText('c'), key: 'a', overlap_seconds: 0 };
    const { status, data } = await send('POST', rotation('several'), body);
    expect(status).toBe(200);
    const [a, b] = itemsOf(fieldsOf(data.config).api_keys).map(fieldsOf);
    expect([a, b]).toMatchObject([{ name: 'a', weight: 3 }, { name: 'b' }]);
    expect(a).not.toHaveProperty('previous_key');
    for (let i = 0; i < 4; i++) await chat('test/several');
    expect(vendor.used.toSorted()).toEqual(['b', 'c', 'c', 'c']);
  });

  test.each([
    ['single', {}, 400, 'api_key', 'api_key is required'],
    ['single', { api_key: '' }, 400, 'api_key', 'api_key must be a non-empty quoted string.'],
    ['single', { api_key: 'x', overlap_seconds: -1 }, 400, 'overlap_seconds', ''],
    ['single', { api_key: 'x', overlap_seconds: 604_801 }, 400, 'overlap_seconds', ''],
    ['single', { api_key: 'x', more: 1 }, 400, 'more', ''],
    ['single', { api_key: keyText('old') }, 400, 'api_key', 'api_key is the key that'],
    ['single', { api_key: 'sk-ü' }, 400, 'api_key', 'api_key has characters'],
    ['single', { api_key: 'x', key: 'a' }, 400, 'key', 'key must be left out'],
    ['several', { api_key: 'x' }, 400, 'key', 'key must be the name of the key to replace: a, b.'],
    ['several', { api_key: 'x', key: 'c' }, 400, 'key', 'key must be the name of the key'],
    ['none', { api_key: 'x' }, 409, null, 'The provider has no key to replace.'],
    ['locked', { api_key: 'x' }, 409, null, 'The provider "locked" is set in '],
    ['missing', { api_key: 'x' }, 404, null, 'There is no provider "missing"'],
  ])('rejects %s %j', async (name, body, status, param, message) => {
    const before = (await gateway.store.configObjects.read()).version;
    const { status: actual, error } = await send('POST', rotation(name), body);
    expect([actual, error.param ?? null]).toEqual([status, param]);
    expect(String(error.message)).toStartWith(message);
    expect((await gateway.store.configObjects.read()).version).toBe(before);
  });

  test('rejects an outdated version with 412, and other keys with 403', async () => {
    const body = { api_key: keyText('new') };
    const outdated = await send('POST', rotation('single'), body, { 'if-match': '"1"' });
    expect(outdated.status).toBe(412);
    for (const path of [rotation('single'), 'providers/single/test']) {
      for (const key of [gateway.keys.routing, gateway.keys.management]) {
        expect((await gateway.post(body, { path: `/admin/v1/${path}`, key })).status).toBe(403);
      }
    }
    expect((await configOf('single')).previous_key).toBeUndefined();
  });
});

describe('POST /admin/v1/providers/:name/test', () => {
  const tested = (name: string, body?: object) => send('POST', `providers/${name}/test`, body);

  test('tests each key on its own, with the message of the provider', async () => {
    const message = `Incorrect API key provided: ${keyText('b')}.`;
    vendor.rejections.set('b', { status: 401, message });
    const failure = 'Incorrect API key provided: [key].';
    for (const call of ['free', 'one_token']) {
      const { status, data } = await tested('several', { call });
      expect([status, data.ok, data.status]).toEqual([200, false, 401]);
      expect(data.message).toBe(`1 of 2 keys failed. b: ${failure}`);
      expect(data.keys).toMatchObject([
        { name: 'a', ok: true, status: 200 },
        { name: 'b', ok: false, status: 401, message: failure },
      ]);
    }
    const { data } = await tested('several', { key: 'a' });
    expect(data).toMatchObject({ ok: true, call: 'model_list', models: 1, model: null });
  });

  test('generates one token without charging anybody', async () => {
    const balance = await gateway.balance();
    const { data } = await tested('single', { call: 'one_token' });
    expect(data).toMatchObject({
      ...{ ok: true, call: 'one_token', status: 200, model: 'test/single', keys: [] },
      message: `${new URL(vendor.url).host} generated a token.`,
    });
    expect(vendor.used).toEqual(['old']);
    expect(await gateway.balance()).toBe(balance);
    vendor.rejections.set('old', { status: 500, message: `Down, ${keyText('old')}` });
    const failed = await tested('single', { call: 'one_token', model: 'test/single' });
    expect(failed.data).toMatchObject({ ok: false, status: 500, message: 'Down, [key]' });
  });

  test.each([
    ['single', { call: 'two' }, 400, 'call'],
    ['single', { call: 'one_token', model: 'test/several' }, 400, 'model'],
    ['single', { model: 'test/single' }, 400, 'model'],
    ['single', { key: 'a' }, 400, 'key'],
    ['several', { key: 'c' }, 400, 'key'],
    ['none', { call: 'one_token' }, 400, 'call'],
    ['single', { more: true }, 400, 'more'],
    ['missing', {}, 404, null],
  ])('rejects %s %j', async (name, body, status, param) => {
    const { status: actual, error } = await tested(name, body);
    expect([actual, error.param ?? null, typeof error.message]).toEqual([status, param, 'string']);
    expect(vendor.used).toEqual([]);
  });
});
