/** Every route refuses as /openapi.json says, in the shape that its clients know. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { wavFile } from '../support/audio-files.ts';
import { type CheckedAnswer, type Json, object } from '../support/openapi-checker.ts';
import { CheckedGateway, type RequestOptions } from '../support/checked-gateway.ts';
import { status as failing } from '../support/fake-upstream.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { opaquePng } from '../support/images.ts';

let rig: CheckedGateway;
/** A key of a tenant that has never had a credit. */
let poorKey: string;

beforeAll(async () => {
  rig = await CheckedGateway.start();
  const { admin: key } = rig.gateway.keys;
  const tenants = '/admin/v1/tenants';
  const body = { id: 'poor', name: 'Poor' };
  await rig.sendOk(`POST ${tenants}`, tenants, { key, body });
  const path = `${tenants}/poor/keys`;
  const made = await rig.sendOk(`POST ${tenants}/{id}/keys`, path, { key, body: { name: 'a' } });
  poorKey = String(made.json.key);
});
afterAll(() => rig.stop());
beforeEach(() => rig.upstream.reset());

interface Refusal {
  readonly status: number;
  readonly symbol: string;
  /** What image routes call its class. */
  readonly ofImages: string;
  /** What Anthropic's clients call it. */
  readonly ofMessages: string;
}

function refusal(status: number, symbol: string, ofImages: string, ofMessages = ofImages): Refusal {
  return { status, symbol, ofImages, ofMessages };
}

const invalid = 'invalid_request_error';
const refusals = {
  400: refusal(400, invalid, invalid),
  401: refusal(401, 'invalid_api_key', 'authentication_error'),
  402: refusal(402, 'insufficient_credits', 'billing_error'),
  403: refusal(403, 'forbidden', 'permission_error'),
  404: refusal(404, invalid, invalid, 'not_found_error'),
  409: refusal(409, invalid, invalid, 'conflict_error'),
  413: refusal(413, invalid, invalid, 'request_too_large'),
  415: refusal(415, invalid, invalid),
  429: refusal(429, 'rate_limit_exceeded', 'rate_limit_error'),
  502: refusal(502, 'upstream_error', 'upstream_error', 'api_error'),
} as const;

/** Asks, and expects a refusal with that status in the words of the route's own clients. */
async function refused(
  expected: Refusal,
  name: string,
  path: string,
  question: RequestOptions = {},
): Promise<Json> {
  return refusalIn(await rig.send(name, path, question), expected, name);
}

function refusalIn(held: CheckedAnswer, expected: Refusal, name: string): Json {
  expect([name, held.status, held.text]).toEqual([name, expected.status, held.text]);
  expect(held.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  const error = object(held.json.error);
  expect(String(error.message)).toMatch(/^[^\n]+[.?]$/);
  expect([name, toldBy(name, held)]).toEqual([name, expectedOf(name, expected)]);
  return error;
}

const shapeOf = (name: string) =>
  / \/v1\/(?:anthropic\/)?(images|messages)\b/.exec(name)?.[1] ?? 'plain';

function expectedOf(name: string, { status, symbol, ofImages, ofMessages }: Refusal): unknown {
  const shape = shapeOf(name);
  if (shape === 'images') return { type: ofImages, code: symbol };
  return shape === 'messages' ? { type: ofMessages } : { type: symbol, code: status };
}

/** The error without what differs from case to case. */
function toldBy(name: string, { json }: CheckedAnswer): unknown {
  const { message: _message, param: _param, ...rest } = object(json.error);
  // The document says which shape has which fields; this says which shape a route has.
  expect([name, 'request_id' in json]).toEqual([name, shapeOf(name) === 'messages']);
  return rest;
}

interface Call {
  readonly name: string;
  /** A body that would be answered, changed a little. */
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

/** An empty text leaves the field out. */
const fields = (all: object) => Object.fromEntries(Object.entries(all).filter(([, it]) => it));

const messages = [{ role: 'user', content: 'Hello!' }];
const [chat, embed, voice] = ['test/chat', 'test/embed', 'test/voice'];
const message = { model: chat, max_tokens: 9, messages };
const spoken = { model: voice, input: 'Hi', voice: 'alloy' };
const calls: readonly Call[] = [
  { name: 'POST /v1/chat/completions', body: (it) => fields({ model: chat, messages, ...it }) },
  { name: 'POST /v1/messages', body: (it) => fields({ ...message, ...it }) },
  { name: 'POST /v1/anthropic/messages', body: (it) => fields({ ...message, ...it }) },
  { name: 'POST /v1/responses', body: (it) => fields({ model: chat, input: 'Hi', ...it }) },
  { name: 'POST /v1/embeddings', body: (it) => fields({ model: embed, input: 'Hi', ...it }) },
  { name: 'POST /v1/audio/speech', body: (it) => fields({ ...spoken, ...it }) },
  {
    name: 'POST /v1/audio/transcriptions',
    body: (it) => form({ model: 'test/ears', file: wavFile(2), ...it }),
  },
  {
    name: 'POST /v1/images/generations',
    body: (it) => fields({ model: 'test/image', prompt: 'A', ...it }),
  },
  {
    name: 'POST /v1/images/edits',
    body: (it) => form({ model: 'test/image', prompt: 'A', image: opaquePng(4, 3), ...it }),
  },
  { name: 'POST /v1/jobs', body: (it) => fields({ ...spoken, ...it }) },
];
const counting: readonly Call[] = ['/v1/messages', '/v1/anthropic/messages'].map((path) => ({
  name: `POST ${path}/count_tokens`,
  body: (it) => fields({ model: chat, messages, ...it }),
}));

const pathOf = (name: string) => name.split(' ')[1] ?? '';
const named = (list: readonly Call[]) => list.map((call) => [call.name, call] as const);

describe.each(named([...calls, ...counting]))('%s refuses', (name, { body }) => {
  test('a body without a model, and names it', async () => {
    const asked = { body: body({ model: '' }) };
    const error = await refused(refusals[400], name, pathOf(name), asked);
    if (shapeOf(name) === 'plain') expect(error.param).toBe('model');
    expect(String(error.message)).toContain('model');
  });

  test('a body of another type', async () => {
    const headers = { 'content-type': 'text/csv' };
    await refused(refusals[415], name, pathOf(name), { body: 'a,b', headers });
  });
});

describe.each(named(calls))('%s refuses', (name, { body }) => {
  const path = pathOf(name);

  test('a model that nobody has', async () => {
    const asked = { body: body({ model: 'test/absent' }) };
    const error = await refused(refusals[404], name, path, asked);
    expect(String(error.message)).toContain('test/absent');
  });

  test('a key that may not call the model', async () => {
    const key = await rig.gateway.makeKey({ models: ['test/none-of-these'] });
    await refused(refusals[403], name, path, { key, body: body({}) });
  });

  test('a key that has asked too often, and says when to come again', async () => {
    const [first, second] = await withinOneMinute(async () => {
      const key = await rig.gateway.makeKey({ requests_per_minute: 1 });
      const ask = () => rig.send(name, path, { key, body: body({ model: 'test/absent' }) });
      return [await ask(), await ask()] as const;
    });
    expect(first.status).toBe(404);
    refusalIn(second, refusals[429], name);
    expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

const isJob = ({ name }: Call) => name === 'POST /v1/jobs';

test.each(named(calls))('%s refuses a tenant without credits', async (name, { body }) => {
  await refused(refusals[402], name, pathOf(name), { key: poorKey, body: body({}) });
});

describe.each(named(calls.filter((call) => !isJob(call))))('%s', (name, call) => {
  test('says that its provider failed', async () => {
    for (const model of ['chat', 'embed', 'voice', 'ears', 'image']) {
      rig.upstream.script(model, failing(500, 'It broke.'));
    }
    await refused(refusals[502], name, pathOf(name), { body: call.body({}) });
  });

  test('hands on what its provider found wrong with the request', async () => {
    for (const model of ['chat', 'embed', 'voice', 'ears', 'image']) {
      rig.upstream.script(model, failing(400, 'That cannot be done.'));
    }
    const asked = { body: call.body({}) };
    const error = await refused(refusals[400], name, pathOf(name), asked);
    expect(error.message).toContain('That cannot be done.');
  });
});

/** A path as somebody would ask for it who knows of nothing that exists. */
const guessed = (path: string) => path.replace(/\{\w+\}/g, 'absent-0');

test('every route that wants a key refuses one that nobody has, and none at all', async () => {
  const wanting = rig.api.operations.filter(
    ({ operation }) => (operation.security as object[]).length > 0,
  );
  expect(wanting.length).toBeGreaterThan(40);
  for (const { name } of wanting) {
    const path = guessed(pathOf(name));
    const prefix = path.startsWith('/admin') ? 'sk-admin-' : 'sk-tg-';
    await refused(refusals[401], name, path, { key: `${prefix}${'0'.repeat(40)}` });
    await refused(refusals[401], name, path, { key: null });
  }
});

test('every route refuses a good key of the wrong kind', async () => {
  const { routing, management, admin } = rig.gateway.keys;
  const wrong: Readonly<Record<string, string>> = {
    routing: management,
    management: routing,
    'routing or management': admin,
    admin: routing,
  };
  for (const { name, operation } of rig.api.operations) {
    const kinds = (operation.security as object[]).flatMap((one) => Object.keys(one));
    const key = wrong[kinds.join(' or ')];
    if (key) await refused(refusals[403], name, guessed(pathOf(name)), { key });
  }
});

describe('a record that does not exist:', () => {
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
    ['GET /dashboard/{path}', '/dashboard/assets/absent.js', 'routing'],
  ];
  test.each(records.map((record) => [record[0], record] as const))('%s', async (name, record) => {
    const [, path, kind, body] = record;
    const key = rig.gateway.keys[kind];
    await refused(refusals[404], name, path, { key, ...(body ? { body } : {}) });
  });
});

describe('a wish that makes no sense:', () => {
  const wishes: readonly (readonly [
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
    ['POST /v1/jobs', '', 'routing', { ...spoken, input: 5 }, 'input'],
    ['POST /api/v1/keys', '', 'management', { name: 5 }, 'name'],
    ['POST /admin/v1/tenants', '', 'admin', { id: 5 }, 'id'],
  ];
  test.each(wishes.map((wish) => [`${wish[0]}${wish[1]}`, wish] as const))(
    '%s',
    async (_, wish) => {
      const [name, query, kind, body, param] = wish;
      const asked = { key: rig.gateway.keys[kind], ...(body ? { body: object(body) } : {}) };
      const error = await refused(refusals[400], name, pathOf(name) + query, asked);
      expect(error.param).toBe(param);
    },
  );
});

test('a link to an output that nobody signed', async () => {
  const name = 'GET /v1/objects/{key}';
  const path = `/v1/objects/${'a'.repeat(26)}.mp3?expires=1&signature=0`;
  await refused(refusals[403], name, path, { key: null });
});

test('a second tenant of one name, and another use of an idempotency key', async () => {
  const { admin: key } = rig.gateway.keys;
  const tenants = '/admin/v1/tenants';
  const body = { id: 'poor', name: 'Poor again' };
  await refused(refusals[409], `POST ${tenants}`, tenants, { key, body });
  const name = 'POST /v1/embeddings';
  const headers = { 'idempotency-key': 'once' };
  await rig.sendOk(name, pathOf(name), { headers, body: { model: embed, input: 'one' } });
  const another = { headers, body: { model: embed, input: 'two' } };
  await refused(refusals[409], name, pathOf(name), another);
});

test('every route that can refuse was seen to; these were not', () => {
  // They are open to anybody and take nothing that could be wrong.
  const never =
    /^GET \/(?:api\/hello|healthz|readyz|metrics|openapi\.json|docs|dashboard)? default /;
  const isMissing = (one: string) => one.includes(' default ') && !rig.api.checkedAnswers.has(one);
  expect(rig.api.documentedAnswers().filter((one) => isMissing(one) && !never.test(one))).toEqual([]);
});
