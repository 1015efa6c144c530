/** Invalid changes of the configuration are rejected with one sentence, and change nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { type ConfigKind, configKinds, type KindName, kindNames } from '../../src/config/kinds.ts';
import { fieldsOf } from '../../src/core/json.ts';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { routesInCode } from '../support/routes-in-code.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

interface Rule {
  readonly type?: string;
  readonly anyOf?: readonly Rule[];
  readonly enum?: readonly unknown[];
}

interface Example {
  /** An object that the test creates. */
  readonly name: string;
  readonly document: Record<string, unknown>;
  /** An object that the file has. */
  readonly inFile: string;
  /** A valid name that nothing has. */
  readonly missing: string;
  readonly invalidName: string;
}

const pricing = { prompt: '1', completion: '1' };
const endpoints = [{ provider: 'north', model: 'a', pricing }];
const examples: Readonly<Record<KindName, Example>> = {
  setting: {
    ...{ name: 'limits.body_bytes', document: { value: 5_000_000 } },
    ...{ inFile: 'limits.reads_per_minute', missing: 'limits.none', invalidName: 'none' },
  },
  provider: {
    name: 'south',
    document: { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: 'sk-south' },
    ...{ inFile: 'north', missing: 'none', invalidName: 'a b' },
  },
  model: {
    name: 'acme/b',
    document: { ...chatModel('acme/b', endpoints) },
    ...{ inFile: 'acme/a', missing: 'acme/none', invalidName: 'acme' },
  },
  alias: {
    ...{ name: 'fast', document: { models: ['acme/a'] } },
    ...{ inFile: 'locked', missing: 'none', invalidName: 'a%20b' },
  },
  price: {
    name: 'acme/a@north@2099-01-01T00:00:00Z',
    document: { pricing },
    inFile: 'acme/a@north@2098-01-01T00:00:00Z',
    ...{ missing: 'acme/a@north@2097-01-01T00:00:00Z', invalidName: 'acme/a@north' },
  },
  plan: {
    ...{ name: 'retail', document: { factor_basis_points: 12_000 } },
    ...{ inFile: 'wholesale', missing: 'none', invalidName: 'a b' },
  },
};

beforeAll(async () => {
  const north = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-north' };
  gateway = await InProcessGateway.start({
    providers: { north },
    models: [chatModel('acme/a', endpoints)],
    aliases: { locked: { models: ['acme/a'] } },
    prices: [{ model: 'acme/a', provider: 'north', from: '2098-01-01T00:00:00Z', pricing }],
    plans: { wholesale: {} },
  });
  for (const kind of kindNames) {
    const { status } = await send('PUT', pathOf(kind), examples[kind].document);
    expect([kind, status]).toEqual([kind, 201]);
  }
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});

const pathOf = (kind: KindName, name = examples[kind].name) =>
  `/admin/v1/${configKinds[kind].plural}/${name}`;

async function send(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
) {
  const response = await fetch(gateway.url + path, {
    method,
    headers: { authorization: `Bearer ${gateway.keys.admin}`, ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return { status: response.status, error: fieldsOf(fieldsOf(await response.json()).error) };
}

async function state(): Promise<unknown> {
  const { read } = gateway.store.database;
  const audited = await read.selectFrom('audit_log').select('id').execute();
  return [await gateway.store.configObjects.read(), audited.length];
}

type Rejection = Awaited<ReturnType<typeof send>>;

/** Sends a request that must be rejected without any change. */
async function rejection(...request: Parameters<typeof send>): Promise<Rejection> {
  const before = await state();
  const rejected = await send(...request);
  expect(await state()).toEqual(before);
  expect(rejected.error.message).toMatch(/^[^\n]{10,400}[.?]$/);
  return rejected;
}

/** Returns a value that a rule doesn't allow. */
function invalidFor(rule: Rule): unknown {
  const types = [rule.type, ...(rule.anyOf ?? []).map(({ type }) => type)];
  return types.includes('object') ? ['a list'] : { not: 'a value' };
}

const schemaFor = (kind: KindName) => {
  const { schemaOf } = configKinds[kind] as ConfigKind;
  const schema = schemaOf(examples[kind].name) as {
    readonly properties: Readonly<Record<string, Rule>>;
    readonly required?: readonly string[];
  };
  return { fields: Object.entries(schema.properties), required: schema.required ?? [] };
};

describe.each(kindNames.map((kind) => [configKinds[kind].plural, kind] as const))(
  'a change of %s',
  (_, kind) => {
    const { document, name, inFile, missing, invalidName } = examples[kind];
    const path = pathOf(kind);
    const complete = (configKinds[kind] as ConfigKind).complete(name, document);

    test('names the field that is missing, unknown, or of the wrong type', async () => {
      const { fields, required } = schemaFor(kind);
      for (const field of required) {
        // The path says some of the fields, so a request may omit them.
        if (!(field in document) || field === 'id') continue;
        const { [field]: _, ...rest } = document;
        const { status, error } = await rejection('PUT', path, rest);
        expect([field, status, error.param]).toEqual([field, 400, field]);
        expect(error.message).toContain(field);
      }
      for (const method of ['PUT', 'PATCH']) {
        const unknown = await rejection(method, path, { ...complete, colour: 'red' });
        expect([unknown.status, unknown.error.param]).toEqual([400, 'colour']);
        const prototype = await rejection(method, path, '{"__proto__": {"colour": "red"}}');
        expect(prototype.status).toBe(400);
        for (const [field, rule] of fields) {
          const body = { ...complete, [field]: invalidFor(rule) };
          const { status, error } = await rejection(method, path, body);
          expect([method, field, status]).toEqual([method, field, 400]);
          expect(String(error.param).split(/[.[]/)[0]).toBe(field);
          expect(error.message).toContain(field);
        }
      }
    });

    test.each([['{"a": '], [[]], ['"text"'], ['7'], ['null']])(
      'with the body %j is rejected',
      async (body) => {
        for (const method of ['PUT', 'PATCH']) {
          const { status } = await rejection(method, path, body);
          expect([method, status]).toEqual([method, 400]);
        }
      },
    );

    test('requires a valid name that exists', async () => {
      for (const [method, body] of [['PATCH', {}], ['DELETE'], ['GET']] as const) {
        const { status } = await rejection(method, pathOf(kind, missing), body);
        expect([method, status]).toEqual([method, 404]);
      }
      const invalid = await rejection('PUT', pathOf(kind, invalidName), document);
      expect([400, 404]).toContain(invalid.status);
    });

    test('requires the current version', async () => {
      const stale = { 'if-match': '"0"' };
      for (const [method, body] of [['PUT', document], ['PATCH', {}], ['DELETE']] as const) {
        expect((await rejection(method, path, body, stale)).status).toBe(412);
        const { status, error } = await rejection(method, path, body, { 'if-match': 'latest' });
        expect([status, error.param]).toEqual([400, 'If-Match']);
        const tag = await rejection(method, path, body, { 'if-none-match': '"1"' });
        expect([tag.status, tag.error.param]).toEqual([400, 'If-None-Match']);
      }
      const isNew = await rejection('PUT', path, document, { 'if-none-match': '*' });
      expect(isNew.status).toBe(412);
      const isOld = await rejection('PUT', pathOf(kind, missing), document, { 'if-match': '*' });
      expect([404, 412]).toContain(isOld.status);
    });

    test('is rejected if the file has the object', async () => {
      for (const [method, body] of [['PUT', document], ['PATCH', {}], ['DELETE']] as const) {
        const { status, error } = await rejection(method, pathOf(kind, inFile), body);
        expect([method, status]).toEqual([method, 409]);
        expect(error.message).toContain(`is set in ${gateway.folder}/tollgate.json`);
      }
    });
  },
);

test('every operator route rejects the keys of tenants, and changes nothing', async () => {
  const routes = (await routesInCode()).filter(({ path }) => path.startsWith('/admin/'));
  expect(routes.length).toBeGreaterThan(40);
  const before = await state();
  for (const { method, path } of routes) {
    const kind = kindNames.find((one) => path.startsWith(`/admin/v1/${configKinds[one].plural}/`));
    const name = kind ? examples[kind].name : 'default';
    const to = path.replace('{.+}', '').replace(/:\w+/g, name);
    const body = kind ? examples[kind].document : {};
    for (const key of [gateway.keys.routing, gateway.keys.management]) {
      const headers = { authorization: `Bearer ${key}` };
      const { status } = await send(method, to, method === 'GET' ? undefined : body, headers);
      expect([method, to, status]).toEqual([method, to, 403]);
    }
  }
  expect(await state()).toEqual(before);
});
