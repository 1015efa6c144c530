/**
 * Sends thousands of changed requests, and compares which of them the gateway accepts with what
 * /openapi.json allows. Every answer is compared with its description, too.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { CheckedGateway } from '../support/checked-gateway.ts';
import { type Json, object, schemaErrors } from '../support/openapi-checker.ts';

let checked: CheckedGateway;
let keyId: string;

beforeAll(async () => {
  checked = await CheckedGateway.start({ concurrent_requests: 1_000 });
  const key = checked.gateway.keys.management;
  const created = await checked.sendOk('POST /api/v1/keys', '/api/v1/keys', {
    key,
    body: { name: 'to change' },
  });
  keyId = String(object(created.json.data).id);
  await checked.sendOk('POST /admin/v1/tenants', '/admin/v1/tenants', {
    key: checked.gateway.keys.admin,
    body: { id: 'to-change', name: 'To change' },
  });
});
afterAll(() => checked.stop());

const timeoutMs = 240_000;

/** The models of the examples, and those with the same features here. */
const models: Readonly<Record<string, string>> = {
  'demo/chat': 'test/chat',
  'demo/embed': 'test/embed',
  'demo/image': 'test/image',
  'demo/speech': 'test/voice',
};

/** The requests whose bodies are changed, with the real paths of those that have parameters. */
const requests: readonly (readonly [name: string, path?: () => string])[] = [
  ['POST /v1/chat/completions'],
  ['POST /v1/messages'],
  ['POST /v1/messages/count_tokens'],
  ['POST /v1/responses'],
  ['POST /v1/embeddings'],
  ['POST /v1/images/generations'],
  ['POST /v1/audio/speech'],
  ['POST /api/v1/keys'],
  ['PATCH /api/v1/keys/{id}', () => `/api/v1/keys/${keyId}`],
  ['POST /api/v1/keys/{id}/rotate', () => `/api/v1/keys/${keyId}/rotate`],
  ['POST /admin/v1/tenants'],
  ['PATCH /admin/v1/tenants/{id}', () => '/admin/v1/tenants/to-change'],
  ['PUT /v1/customer/skills/{name}', () => '/v1/customer/skills/house-style'],
];

/** Rules that a schema can't express, or that depend on the configuration. */
const unwritten: readonly RegExp[] = [
  /^There is no skill /,
  /^There is no plan /,
  /^limit_reset requires a limit\./,
  /^limit has no effect on a management key\./,
  /^requests_per_minute is \d+, but keys of this tenant can have at most /,
  /^input has \d+ UTF-8 bytes; test\/voice accepts at most 1000\./,
  // The text of a skill is trimmed before it is checked.
  /^\w+ must be one line\./,
  /^\w+ has \d+ characters; at most \d+ are allowed\./,
  /^\w+ must not have control characters /,
  /^input contains an unpaired surrogate\./,
];

function keyFor(name: string): string {
  const { routing, management, admin } = checked.gateway.keys;
  if (name.includes(' /admin/')) return admin;
  return name.includes(' /api/v1/') || name.startsWith('PUT ') ? management : routing;
}

const absent = Symbol('absent');
const values: readonly unknown[] = [
  ...[absent, null, true, false, '', 'x', '\u{1f600}', '\ud800', 'a\nb', 'x'.repeat(1_001)],
  ...[-1, 0, 0.5, 1, 17, 3_000_000_000, [], [''], [1], ['x', 'x'], {}, { type: 'x' }, [{}]],
];

/** The values that a schema names: constants, bounds, and values just outside of the bounds. */
function namedValues(schema: unknown): unknown[] {
  if (Array.isArray(schema)) return schema.flatMap(namedValues);
  const { const: constant, enum: options, minimum, maximum, anyOf, example } = object(schema);
  const bounds = [minimum, maximum].filter((bound) => typeof bound === 'number');
  return [
    ...(constant === undefined ? [] : [constant]),
    ...(Array.isArray(options) ? options : []),
    ...bounds.flatMap((bound) => [bound - 1, bound, bound + 1]),
    ...(example === undefined ? [] : [example]),
    ...namedValues(Array.isArray(anyOf) ? anyOf : []),
  ];
}

const withField = (body: Json, name: string, value: unknown): Json => {
  const { [name]: _, ...rest } = body;
  return value === absent ? rest : { ...rest, [name]: value };
};

/** Returns the body with each of its fields, and each field of the schema, set to each value. */
function* changesOf(body: Json, schema: Json): Generator<Json> {
  const properties = object(schema.properties);
  for (const name of new Set([...Object.keys(properties), ...Object.keys(body)])) {
    for (const value of [...values, ...namedValues(properties[name])])
      yield withField(body, name, value);
    const { items } = object(properties[name]);
    const list = body[name];
    if (Array.isArray(list) && typeof list[0] === 'object') {
      for (const item of changesOf(object(list[0]), object(items)))
        yield { ...body, [name]: [item, ...list.slice(1)] };
    }
  }
}

async function inParallel<T>(all: Iterable<T>, run: (one: T) => Promise<void>): Promise<void> {
  const iterator = all[Symbol.iterator]();
  const worker = async () => {
    for (let next = iterator.next(); !next.done; next = iterator.next()) await run(next.value);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

test.each(requests.map(([name, path]) => [name, path] as const))(
  '%s accepts exactly the bodies that are documented',
  async (name, path = () => name.replace(/^\w+ /, '')) => {
    const operation = checked.api.operations.find((one) => one.name === name)?.operation;
    const content = object(object(object(operation?.requestBody).content)['application/json']);
    const schema = object(checked.api.resolveSchema(content.schema));
    const example = object(content.example);
    const base =
      'model' in example ? { ...example, model: models[String(example.model)] } : example;
    const wrong = new Set<string>();
    let sent = 0;
    await inParallel(changesOf(base, schema), async (body) => {
      const options = { key: keyFor(name), body: JSON.stringify(body) };
      const answer = await checked.send(name, path(), options).catch((error: Error) => {
        wrong.add(`answer: ${error.message.slice(0, 300)}`);
        return undefined;
      });
      sent += 1;
      if (!answer) return;
      const isAllowed = schemaErrors(schema, body).length === 0;
      const message = String(object(answer.json.error).message);
      const text = JSON.stringify(body).slice(0, 150);
      if (answer.status < 300 && !isAllowed) wrong.add(`served: ${text}`);
      const isRefused = answer.status === 400 && !unwritten.some((rule) => rule.test(message));
      if (isRefused && isAllowed) wrong.add(`refused: ${message.slice(0, 150)} ${text}`);
      if (answer.status >= 500) wrong.add(`failed: ${message} ${text}`);
    });
    expect([...wrong]).toEqual([]);
    expect(sent).toBeGreaterThan(20);
  },
  timeoutMs,
);

const queryValues = [
  ...['', '0', '-1', '1', '1.5', '17', '99999999999999999999', 'x', 'true', 'null', '\u{1f600}'],
  ...['2026-02', '0000-00', '1969-12', '2026-13', '2026-2', '2026-02-03', '0000-00-00'],
  ...[
    '2026-02-03T04:05',
    '2026-02-03T04:05:06.7Z',
    '2026-02-03t04:05:06+01:00',
    '2026-02-03T25:00',
  ],
];

/** Converts a parameter to the type of its schema, as generated clients do in reverse. */
function typedValue(text: string, { type }: Json): unknown {
  if (type === 'integer' && /^\d+$/.test(text)) return Number(text);
  return type === 'boolean' && /^(?:true|false)$/.test(text) ? text === 'true' : text;
}

/** Rules that depend on the current time, or on two parameters. */
const unwrittenInQueries: readonly RegExp[] = [
  /^A report covers at most \d+ days\./,
  /^granularity=hour covers one day\./,
  /^month must not be in the future\./,
  /^start_date must not be after end_date\./,
];

test(
  'every parameter accepts exactly the values that are documented',
  async () => {
    const wrong = new Set<string>();
    const reads = checked.api.operations.filter(
      ({ name, operation }) =>
        name.startsWith('GET ') && !name.includes('{') && operation.parameters !== undefined,
    );
    let sent = 0;
    for (const { name, operation } of reads) {
      for (const parameter of (operation.parameters as Json[]).map(object)) {
        const schema = object(checked.api.resolveSchema(parameter.schema));
        const named = namedValues(schema).map(String);
        await inParallel([...queryValues, ...named], async (text) => {
          const path = `${name.replace('GET ', '')}?${parameter.name}=${encodeURIComponent(text)}`;
          const answer = await checked.send(name, path, { key: keyFor(name) });
          sent += 1;
          const isAllowed = schemaErrors(schema, typedValue(text, schema)).length === 0;
          const message = String(object(answer.json.error).message);
          const isKnown = unwrittenInQueries.some((rule) => rule.test(message));
          if (answer.status < 300 && !isAllowed) wrong.add(`served: ${path}`);
          if (answer.status === 400 && isAllowed && !isKnown)
            wrong.add(`refused: ${path} ${message}`);
        });
      }
    }
    expect([...wrong]).toEqual([]);
    expect(sent).toBeGreaterThan(500);
  },
  timeoutMs,
);

test('a body that is documented as optional may be absent', async () => {
  const optional = requests.filter(([name]) => {
    const operation = checked.api.operations.find((one) => one.name === name)?.operation;
    return object(operation?.requestBody).required === false;
  });
  expect(optional.map(([name]) => name)).toEqual([
    'PATCH /api/v1/keys/{id}',
    'POST /api/v1/keys/{id}/rotate',
    'PATCH /admin/v1/tenants/{id}',
  ]);
  for (const [name, path = () => ''] of optional)
    await checked.sendOk(name, path(), { key: keyFor(name) });
});

test('no pattern needs a regular expression engine that reads surrogates', async () => {
  const text = (await checked.gateway.get('/openapi.json')).text;
  expect(text).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])|\\u[dD][89a-fA-F]/);
});
