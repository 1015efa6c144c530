/** The audit log records every administrative act, by whom, and what it changed. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { parseCsv } from '../support/csv.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { routesInCode } from '../support/routes-in-code.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const secret = 'sk-own-0123456789abcdef';
beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: upstream.url, api_key: null };
  gateway = await InProcessGateway.start({ providers: { fake }, models: [] });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

async function send(method: string, path: string, body: object, key = gateway.keys.admin) {
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(gateway.url + path, { method, headers, body: JSON.stringify(body) });
  return fieldsOf(fieldsOf(await response.json()).data);
}

async function read(query: string) {
  const { json, text } = await gateway.get(`/admin/v1/audit?${query}`, { key: gateway.keys.admin });
  return { entries: objectsIn(json.data), next: json.next_before, text };
}

test('records tenants, keys, provider keys, and credits with their states', async () => {
  await send('POST', '/admin/v1/tenants', { id: 'acme', name: 'Acme' });
  await send('PATCH', '/admin/v1/tenants/acme', { name: 'Acme 2' });
  await send('POST', '/admin/v1/tenants/acme/credits', { amount: 500, note: 'Invoice 1' });
  const { management } = gateway.keys;
  const key = await send('POST', '/api/v1/keys', { name: 'app' }, management);
  await send('PATCH', `/api/v1/keys/${key.id}`, { disabled: true }, management);
  await send('POST', `/api/v1/keys/${key.id}/rotate`, {}, management);
  await send('DELETE', `/api/v1/keys/${key.id}`, {}, management);
  await send('PUT', '/api/v1/byok/fake', { api_key: secret }, management);
  await send('DELETE', '/api/v1/byok/fake', {}, management);

  const { entries, text } = await read('limit=9');
  const manager = 'key_bootstrapmanage';
  expect(
    entries.map((entry) => [entry.action, entry.tenant_id, entry.target, entry.actor]),
  ).toEqual([
    ['provider_key.delete', 'default', 'fake', manager],
    ['provider_key.set', 'default', 'fake', manager],
    ['key.delete', 'default', key.id, manager],
    ['key.rotate', 'default', key.id, manager],
    ['key.update', 'default', key.id, manager],
    ['key.create', 'default', key.id, manager],
    ['credits.change', 'acme', 'acme', 'admin'],
    ['tenant.update', 'acme', 'acme', 'admin'],
    ['tenant.create', 'acme', 'acme', 'admin'],
  ]);
  expect(entries[7]).toMatchObject({ before: { name: 'Acme' }, after: { name: 'Acme 2' } });
  expect(entries[6]).toMatchObject({
    before: { balance: 0 },
    after: { balance: 500, amount: 500 },
  });
  expect(entries[4]).toMatchObject({ before: { disabled: 0 }, after: { disabled: 1 } });
  expect(entries[2]?.after).toBeNull();
  expect(entries[0]).toMatchObject({ origin: 'http', address: '127.0.0.1' });
  expect(text).not.toContain(secret);
  expect(text).not.toMatch(/hash|ciphertext/);
});

test('is filtered and read in pages', async () => {
  const { entries: all } = await read('limit=100');
  const { entries: first, next } = await read('limit=2');
  const { entries: second } = await read(`limit=2&before=${next}`);
  expect([...first, ...second]).toEqual(all.slice(0, 4));
  const { entries: keys } = await read('action=key.&actor=key_bootstrapmanage');
  expect(new Set(keys.map(({ action }) => action))).toEqual(
    new Set(['key.create', 'key.update', 'key.rotate', 'key.delete']),
  );
  const { entries: acme } = await read('tenant_id=acme&action=tenant.create');
  expect(acme.map(({ target }) => target)).toEqual(['acme']);
  expect((await read('end_date=2020-01-01')).entries).toEqual([]);
});

test('is downloaded as CSV', async () => {
  const path = '/admin/v1/audit/export.csv?tenant_id=acme';
  const { text } = await gateway.get(path, { key: gateway.keys.admin });
  const [header = [], ...rows] = parseCsv(text);
  expect(rows.map((row) => row[header.indexOf('action')])).toEqual([
    'credits.change',
    'tenant.update',
    'tenant.create',
  ]);
  expect(JSON.parse(rows[1]?.[header.indexOf('after')] ?? '')).toMatchObject({ name: 'Acme 2' });
});

/** A management call, and its audit entry. `:id` is the ID of the last key. */
type Act = readonly [route: string, path: string, body: object, action: string];

const model = {
  ...{ name: 'Walk', input_modalities: ['text'], output_modalities: ['text'] },
  endpoints: [{ provider: 'walk', model: 'a', pricing: { prompt: '1', completion: '1' } }],
};
const provider = { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: secret };
const price = { pricing: { prompt: '2', completion: '2' } };
const later = '2099-01-01T00:00:00Z';
const newPrice = { model: 'walk/a', provider: 'walk', from: '2098-01-01T00:00:00Z', ...price };
const skill = { description: 'Style', instructions: 'Write briefly.' };

const configActs = (
  kind: string,
  plural: string,
  name: string,
  created: object,
  changed: object,
): Act[] => {
  const route = `/admin/v1/${plural}/:name`;
  const path = `/admin/v1/${plural}/${name}`;
  return [
    [`PUT ${route}`, path, created, `${kind}.create`],
    [`PATCH ${route}`, path, changed, `${kind}.update`],
  ];
};
const deletion = (kind: string, plural: string, name: string): Act => [
  ...([`DELETE /admin/v1/${plural}/:name`, `/admin/v1/${plural}/${name}`] as const),
  ...([{}, `${kind}.delete`] as const),
];

const tenantKeys = '/admin/v1/tenants/walk/keys';
const acts: readonly Act[] = [
  ['POST /admin/v1/tenants', '/admin/v1/tenants', { id: 'walk', name: 'Walk' }, 'tenant.create'],
  ['PATCH /admin/v1/tenants/:id', '/admin/v1/tenants/walk', { name: 'W' }, 'tenant.update'],
  [
    ...(['POST /admin/v1/tenants/:id/credits', '/admin/v1/tenants/walk/credits'] as const),
    ...([{ amount: 5, note: 'Invoice' }, 'credits.change'] as const),
  ],
  ['POST /admin/v1/tenants/:id/keys', tenantKeys, { name: 'app' }, 'key.create'],
  [
    ...(['PATCH /admin/v1/tenants/:id/keys/:key_id', `${tenantKeys}/:id`] as const),
    ...([{ disabled: true }, 'key.update'] as const),
  ],
  [
    ...(['POST /admin/v1/tenants/:id/keys/:key_id/rotate', `${tenantKeys}/:id/rotate`] as const),
    ...([{}, 'key.rotate'] as const),
  ],
  [
    ...(['DELETE /admin/v1/tenants/:id/keys/:key_id', `${tenantKeys}/:id`] as const),
    ...([{}, 'key.delete'] as const),
  ],
  ['POST /api/v1/keys', '/api/v1/keys', { name: 'app' }, 'key.create'],
  ['PATCH /api/v1/keys/:id', '/api/v1/keys/:id', { disabled: true }, 'key.update'],
  ['POST /api/v1/keys/:id/rotate', '/api/v1/keys/:id/rotate', {}, 'key.rotate'],
  ['DELETE /api/v1/keys/:id', '/api/v1/keys/:id', {}, 'key.delete'],
  ['PUT /api/v1/byok/:provider', '/api/v1/byok/fake', { api_key: secret }, 'provider_key.set'],
  ['DELETE /api/v1/byok/:provider', '/api/v1/byok/fake', {}, 'provider_key.delete'],
  [
    ...(['POST /api/v1/webhook-secret/rotate', '/api/v1/webhook-secret/rotate'] as const),
    ...([{}, 'webhook_secret.rotate'] as const),
  ],
  ['PUT /v1/customer/skills/:name', '/v1/customer/skills/style', skill, 'skill.set'],
  ['DELETE /v1/customer/skills/:name', '/v1/customer/skills/style', {}, 'skill.delete'],
  ...configActs('provider', 'providers', 'walk', provider, { timeout_ms: 5 }),
  [
    ...(['POST /admin/v1/providers/:name/rotate', '/admin/v1/providers/walk/rotate'] as const),
    ...([{ api_key: `${secret}-new` }, 'provider.rotate_key'] as const),
  ],
  ...configActs('model', 'models', 'walk/a', model, { name: 'Walked' }),
  ...configActs('alias', 'aliases', 'walk', { models: ['walk/a'] }, { description: 'x' }),
  ...configActs('price', 'prices', `walk/a@walk@${later}`, price, { pricing: { prompt: '3' } }),
  ['POST /admin/v1/prices', '/admin/v1/prices', newPrice, 'price.create'],
  ...configActs('plan', 'plans', 'walk', {}, { factor_basis_points: 1 }),
  ...configActs('setting', 'settings', 'cache.mode', { value: 'off' }, { value: 'auto' }),
  ['POST /admin/v1/audit/:id/restore', '/admin/v1/audit/latest/restore', {}, 'setting.update'],
  deletion('setting', 'settings', 'cache.mode'),
  deletion('plan', 'plans', 'walk'),
  deletion('price', 'prices', `walk/a@walk@${later}`),
  deletion('price', 'prices', 'walk/a@walk@2098-01-01T00:00:00Z'),
  deletion('alias', 'aliases', 'walk'),
  deletion('model', 'models', 'walk/a'),
  deletion('provider', 'providers', 'walk'),
];

/** Routes that change nothing, although their method is POST. */
const readOnly = [
  'POST /v1/route/explain',
  'POST /admin/v1/route/explain',
  'POST /admin/v1/providers/:name/test',
];

test('records one entry, without secrets, for every route that changes something', async () => {
  // A routing key only calls models and starts jobs.
  const changing = (await routesInCode()).filter(
    ({ method, access }) => method !== 'GET' && access !== 'routing' && access !== 'public',
  );
  const routes = new Map(
    changing.map((route) => [`${route.method} ${route.path.replace('{.+}', '')}`, route.access]),
  );
  expect(new Set([...acts.map(([route]) => route), ...readOnly])).toEqual(new Set(routes.keys()));
  const { admin, management, routing } = gateway.keys;
  const secrets = [secret];
  let keyId = '';
  for (const [route, path, body, action] of acts) {
    const { entries: earlier } = await read('limit=1');
    const access = routes.get(route);
    const key = access === 'admin' ? admin : access === 'management' ? management : routing;
    const to = path.replace(':id', keyId).replace('latest', String(earlier[0]?.id));
    const headers = { authorization: `Bearer ${key}` };
    const init = { method: route.split(' ')[0] ?? '', headers, body: JSON.stringify(body) };
    const response = await fetch(gateway.url + to, init);
    const json = fieldsOf(await response.json());
    const data = fieldsOf(json.data);
    expect([route, response.status < 300, json.error]).toEqual([route, true, undefined]);
    if (action === 'key.create') keyId = String(data.id);
    for (const shownOnce of [json.key, data.secret]) {
      if (typeof shownOnce === 'string') secrets.push(shownOnce);
    }
    const { entries } = await read('limit=2');
    expect([route, entries[0]?.action, entries[0]?.request_id]).toEqual([
      ...[route, action, response.headers.get('x-request-id')],
    ]);
    expect([route, entries[1]?.id]).toEqual([route, earlier[0]?.id]);
    expect([route, entries[0]?.before]).not.toEqual([route, entries[0]?.after]);
  }
  const { text } = await gateway.get('/admin/v1/audit/export.csv', { key: admin });
  expect(secrets.length).toBeGreaterThan(4);
  for (const one of secrets) expect(text).not.toContain(one);
});
