/** Compares the errors of every route with /openapi.json, in the shape that its clients expect. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { wavFile } from '../support/audio-files.ts';
import { CheckedGateway, type RequestOptions } from '../support/checked-gateway.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { status as failing } from '../support/fake-upstream.ts';
import { opaquePng } from '../support/images.ts';
import { type CheckedAnswer, type Json, object } from '../support/openapi-checker.ts';

let checked: CheckedGateway;
/** The key of a tenant without credits. */
let keyWithoutCredits: string;

beforeAll(async () => {
  checked = await CheckedGateway.start();
  const { admin: key } = checked.gateway.keys;
  const tenants = '/admin/v1/tenants';
  const body = { id: 'no-credits', name: 'No credits' };
  await checked.sendOk(`POST ${tenants}`, tenants, { key, body });
  const path = `${tenants}/no-credits/keys`;
  const created = await checked.sendOk(`POST ${tenants}/{id}/keys`, path, {
    key,
    body: { name: 'a' },
  });
  keyWithoutCredits = String(created.json.key);
});
afterAll(() => checked.stop());
beforeEach(() => checked.upstream.reset());

interface ExpectedError {
  readonly status: number;
  readonly symbol: string;
  /** The type in the errors of image routes. */
  readonly imageType: string;
  /** The type in the errors of Anthropic routes. */
  readonly messageType: string;
}

function expectedError(
  status: number,
  symbol: string,
  imageType: string,
  messageType = imageType,
): ExpectedError {
  return { status, symbol, imageType, messageType };
}

const invalid = 'invalid_request_error';
const errors = {
  400: expectedError(400, invalid, invalid),
  401: expectedError(401, 'invalid_api_key', 'authentication_error'),
  402: expectedError(402, 'insufficient_credits', 'billing_error'),
  403: expectedError(403, 'forbidden', 'permission_error'),
  404: expectedError(404, invalid, invalid, 'not_found_error'),
  409: expectedError(409, invalid, invalid, 'conflict_error'),
  413: expectedError(413, invalid, invalid, 'request_too_large'),
  415: expectedError(415, invalid, invalid),
  429: expectedError(429, 'rate_limit_exceeded', 'rate_limit_error'),
  502: expectedError(502, 'upstream_error', 'upstream_error', 'api_error'),
} as const;

/** Sends a request and expects an error with this status, in the shape of the route. */
async function expectRejected(
  expected: ExpectedError,
  name: string,
  path: string,
  options: RequestOptions = {},
): Promise<Json> {
  return checkError(await checked.send(name, path, options), expected, name);
}

function checkError(answer: CheckedAnswer, expected: ExpectedError, name: string): Json {
  expect([name, answer.status, answer.text]).toEqual([name, expected.status, answer.text]);
  expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  const error = object(answer.json.error);
  expect(String(error.message)).toMatch(/^[^\n]+[.?]$/);
  expect([name, errorFields(name, answer)]).toEqual([name, expectedOf(name, expected)]);
  return error;
}

const shapeOf = (name: string) =>
  / \/v1\/(?:anthropic\/)?(images|messages|chat)\b/.exec(name)?.[1] ?? 'plain';

function expectedOf(
  name: string,
  { status, symbol, imageType, messageType }: ExpectedError,
): unknown {
  const shape = shapeOf(name);
  if (shape === 'images') return { type: imageType, code: symbol };
  if (shape === 'messages') return { type: messageType };
  return { type: symbol, code: shape === 'chat' ? status : symbol };
}

/** Returns the error without the fields that differ between cases. */
function errorFields(name: string, { json }: CheckedAnswer): unknown {
  const { message: _message, param: _param, ...rest } = object(json.error);
  // Only the messages shape has this field.
  expect([name, 'request_id' in json]).toEqual([name, shapeOf(name) === 'messages']);
  return rest;
}

interface Call {
  readonly name: string;
  /** Returns a valid body with these changes. */
  readonly body: (change: Readonly<Record<string, string>>) => object;
}

function form(fields: Readonly<Record<string, string | Uint8Array>>): FormData {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value !== 'string') {
      body.append(name, new File([value as Uint8Array<ArrayBuffer>], 'a file'));
    } else if (value !== '') body.append(name, value);
  }
  return body;
}

/** Removes fields whose value is an empty string. */
const fields = (all: object) =>
  Object.fromEntries(Object.entries(all).filter(([, value]) => value));

const messages = [{ role: 'user', content: 'Hello!' }];
const [chat, embed, voice] = ['test/chat', 'test/embed', 'test/voice'];
const message = { model: chat, max_tokens: 9, messages };
const speech = { model: voice, input: 'Hi', voice: 'alloy' };
const calls: readonly Call[] = [
  {
    name: 'POST /v1/chat/completions',
    body: (change) => fields({ model: chat, messages, ...change }),
  },
  { name: 'POST /v1/messages', body: (change) => fields({ ...message, ...change }) },
  { name: 'POST /v1/anthropic/messages', body: (change) => fields({ ...message, ...change }) },
  { name: 'POST /v1/responses', body: (change) => fields({ model: chat, input: 'Hi', ...change }) },
  {
    name: 'POST /v1/embeddings',
    body: (change) => fields({ model: embed, input: 'Hi', ...change }),
  },
  { name: 'POST /v1/audio/speech', body: (change) => fields({ ...speech, ...change }) },
  {
    name: 'POST /v1/audio/transcriptions',
    body: (change) => form({ model: 'test/ears', file: wavFile(2), ...change }),
  },
  {
    name: 'POST /v1/images/generations',
    body: (change) => fields({ model: 'test/image', prompt: 'A', ...change }),
  },
  {
    name: 'POST /v1/images/edits',
    body: (change) => form({ model: 'test/image', prompt: 'A', image: opaquePng(4, 3), ...change }),
  },
  { name: 'POST /v1/jobs', body: (change) => fields({ ...speech, ...change }) },
];
const counting: readonly Call[] = ['/v1/messages', '/v1/anthropic/messages'].map((path) => ({
  name: `POST ${path}/count_tokens`,
  body: (change) => fields({ model: chat, messages, ...change }),
}));

const pathOf = (name: string) => name.split(' ')[1] ?? '';
const named = (list: readonly Call[]) => list.map((call) => [call.name, call] as const);

describe.each(named([...calls, ...counting]))('%s', (name, { body }) => {
  test('rejects a body without a model and names the field', async () => {
    const options = { body: body({ model: '' }) };
    const error = await expectRejected(errors[400], name, pathOf(name), options);
    if (shapeOf(name) === 'plain') expect(error.param).toBe('model');
    expect(String(error.message)).toContain('model');
  });

  test('rejects a body of another content type', async () => {
    const headers = { 'content-type': 'text/csv' };
    await expectRejected(errors[415], name, pathOf(name), { body: 'a,b', headers });
  });
});

describe.each(named(calls))('%s', (name, { body }) => {
  const path = pathOf(name);

  test('rejects an unknown model', async () => {
    const options = { body: body({ model: 'test/absent' }) };
    const error = await expectRejected(errors[404], name, path, options);
    expect(String(error.message)).toContain('test/absent');
  });

  test('rejects a key that may not call the model', async () => {
    const key = await checked.gateway.makeKey({ models: ['test/none-of-these'] });
    await expectRejected(errors[403], name, path, { key, body: body({}) });
  });

  test('rejects a key above its rate limit with retry-after', async () => {
    const [first, second] = await withinOneMinute(async () => {
      const key = await checked.gateway.makeKey({ requests_per_minute: 1 });
      const send = () => checked.send(name, path, { key, body: body({ model: 'test/absent' }) });
      return [await send(), await send()] as const;
    });
    expect(first.status).toBe(404);
    checkError(second, errors[429], name);
    expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

const isJob = ({ name }: Call) => name === 'POST /v1/jobs';

test.each(named(calls))('%s rejects a tenant without credits', async (name, { body }) => {
  await expectRejected(errors[402], name, pathOf(name), { key: keyWithoutCredits, body: body({}) });
});

describe.each(named(calls.filter((call) => !isJob(call))))('%s', (name, call) => {
  test('returns 502 if the provider fails', async () => {
    for (const model of ['chat', 'embed', 'voice', 'ears', 'image']) {
      checked.upstream.script(model, failing(500, 'An error occurred.'));
    }
    await expectRejected(errors[502], name, pathOf(name), { body: call.body({}) });
  });

  test("forwards the provider's reason for rejecting the request", async () => {
    for (const model of ['chat', 'embed', 'voice', 'ears', 'image']) {
      checked.upstream.script(model, failing(400, 'The request is invalid.'));
    }
    const options = { body: call.body({}) };
    const error = await expectRejected(errors[400], name, pathOf(name), options);
    expect(error.message).toContain('The request is invalid.');
  });
});

/** Fills in path parameters that don't exist. */
const withUnknownIds = (path: string) => path.replace(/\{\w+\}/g, 'absent-0');

test('every route that requires a key rejects an unknown key and a missing key', async () => {
  const withKey = checked.api.operations.filter(
    ({ operation }) => (operation.security as object[]).length > 0,
  );
  expect(withKey.length).toBeGreaterThan(40);
  for (const { name } of withKey) {
    const path = withUnknownIds(pathOf(name));
    const prefix = path.startsWith('/admin') ? 'sk-admin-' : 'sk-tg-';
    await expectRejected(errors[401], name, path, { key: `${prefix}${'0'.repeat(40)}` });
    await expectRejected(errors[401], name, path, { key: null });
  }
});

test('every route rejects a valid key of the wrong kind', async () => {
  const { routing, management, admin } = checked.gateway.keys;
  const wrong: Readonly<Record<string, string>> = {
    routing: management,
    management: routing,
    'routing or management': admin,
    admin: routing,
  };
  for (const { name, operation } of checked.api.operations) {
    const kinds = (operation.security as object[]).flatMap((one) => Object.keys(one));
    const key = wrong[kinds.join(' or ')];
    if (key) await expectRejected(errors[403], name, withUnknownIds(pathOf(name)), { key });
  }
});

describe('404 for unknown records', () => {
  const absentKey = '/admin/v1/tenants/default/keys/key_absent';
  const records: readonly (readonly [
    string,
    string,
    'routing' | 'management' | 'admin',
    object?,
  ])[] = [
    ['GET /v1/models/{id}', '/v1/models/test/absent', 'routing'],
    ['GET /v1/generation', `/v1/generation?id=${crypto.randomUUID()}`, 'routing'],
    ['GET /v1/customer/logs/{id}', `/v1/customer/logs/${crypto.randomUUID()}`, 'routing'],
    ['GET /v1/customer/logs', '/v1/customer/logs?api_key_id=key_absent', 'routing'],
    ['GET /v1/customer/skills/{name}', '/v1/customer/skills/absent', 'routing'],
    ['DELETE /v1/customer/skills/{name}', '/v1/customer/skills/absent', 'management'],
    ['GET /v1/jobs/{id}', `/v1/jobs/job_${'0'.repeat(24)}`, 'routing'],
    ['DELETE /v1/jobs/{id}', `/v1/jobs/job_${'0'.repeat(24)}`, 'routing'],
    ['GET /api/v1/keys/{id}', '/api/v1/keys/key_absent', 'management'],
    ['PATCH /api/v1/keys/{id}', '/api/v1/keys/key_absent', 'management', { name: 'a' }],
    ['DELETE /api/v1/keys/{id}', '/api/v1/keys/key_absent', 'management'],
    ['POST /api/v1/keys/{id}/rotate', '/api/v1/keys/key_absent/rotate', 'management', {}],
    ['GET /api/v1/byok/{provider}', '/api/v1/byok/absent', 'management'],
    ['DELETE /api/v1/byok/{provider}', '/api/v1/byok/absent', 'management'],
    ['GET /admin/v1/tenants/{id}', '/admin/v1/tenants/absent', 'admin'],
    ['PATCH /admin/v1/tenants/{id}', '/admin/v1/tenants/absent', 'admin', { name: 'a' }],
    ['GET /admin/v1/tenants/{id}/credits', '/admin/v1/tenants/absent/credits', 'admin'],
    ['POST /admin/v1/tenants/{id}/keys', '/admin/v1/tenants/absent/keys', 'admin', { name: 'a' }],
    ['GET /admin/v1/tenants/{id}/keys', '/admin/v1/tenants/absent/keys', 'admin'],
    ['GET /admin/v1/tenants/{id}/keys/{key_id}', absentKey, 'admin'],
    ['PATCH /admin/v1/tenants/{id}/keys/{key_id}', absentKey, 'admin', { disabled: true }],
    ['DELETE /admin/v1/tenants/{id}/keys/{key_id}', absentKey, 'admin'],
    ['POST /admin/v1/tenants/{id}/keys/{key_id}/rotate', `${absentKey}/rotate`, 'admin', {}],
    ['GET /dashboard/{path}', '/dashboard/assets/absent.js', 'routing'],
  ];
  test.each(records.map((record) => [record[0], record] as const))('%s', async (name, record) => {
    const [, path, kind, body] = record;
    const key = checked.gateway.keys[kind];
    await expectRejected(errors[404], name, path, { key, ...(body ? { body } : {}) });
  });
});

describe('400 for invalid values', () => {
  const cases: readonly (readonly [
    string,
    string,
    'routing' | 'management' | 'admin',
    unknown,
    string,
  ])[] = [
    ['GET /v1/customer/logs', '?limit=0', 'routing', null, 'limit'],
    ['GET /v1/customer/logs/export.csv', '?status=done', 'routing', null, 'status'],
    ['GET /v1/customer/analytics', '?group_by=mood', 'routing', null, 'group_by'],
    ['GET /v1/customer/billing/statements', '?months=0', 'routing', null, 'months'],
    ['GET /v1/jobs', '?limit=ten', 'routing', null, 'limit'],
    ['GET /v1/generation', '', 'routing', null, 'id'],
    ['POST /v1/chat/completions', '', 'routing', { model: 5, messages }, 'model'],
    ['POST /v1/responses', '', 'routing', { model: chat, input: 5 }, 'input'],
    ['POST /v1/embeddings', '', 'routing', { model: embed, input: 5 }, 'input'],
    ['POST /v1/jobs', '', 'routing', { ...speech, input: 5 }, 'input'],
    ['POST /api/v1/keys', '', 'management', { name: 5 }, 'name'],
    ['POST /admin/v1/tenants', '', 'admin', { id: 5 }, 'id'],
  ];
  test.each(cases.map((entry) => [`${entry[0]}${entry[1]}`, entry] as const))(
    '%s',
    async (_, entry) => {
      const [name, query, kind, body, param] = entry;
      const options = { key: checked.gateway.keys[kind], ...(body ? { body: object(body) } : {}) };
      const error = await expectRejected(errors[400], name, pathOf(name) + query, options);
      expect(error.param).toBe(param);
    },
  );
});

test('GET /v1/objects/{key} rejects an invalid signature with 403', async () => {
  const name = 'GET /v1/objects/{key}';
  const path = `/v1/objects/${'a'.repeat(26)}.mp3?expires=1&signature=0`;
  await expectRejected(errors[403], name, path, { key: null });
});

test('a duplicate tenant and a reused idempotency key get 409', async () => {
  const { admin: key } = checked.gateway.keys;
  const tenants = '/admin/v1/tenants';
  const body = { id: 'no-credits', name: 'Duplicate' };
  await expectRejected(errors[409], `POST ${tenants}`, tenants, { key, body });
  const name = 'POST /v1/embeddings';
  const headers = { 'idempotency-key': 'once' };
  await checked.sendOk(name, pathOf(name), { headers, body: { model: embed, input: 'one' } });
  const another = { headers, body: { model: embed, input: 'two' } };
  await expectRejected(errors[409], name, pathOf(name), another);
});

test('every documented error was checked', () => {
  // These routes are public and have no parameters.
  const cannotFail =
    /^GET \/(?:api\/hello|healthz|readyz|metrics|openapi\.json|docs|dashboard)? default /;
  const isMissing = (answer: string) =>
    answer.includes(' default ') && !checked.api.checkedAnswers.has(answer);
  const missing = checked.api
    .documentedAnswers()
    .filter((answer) => isMissing(answer) && !cannotFail.test(answer));
  expect(missing).toEqual([]);
});
