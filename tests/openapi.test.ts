/** The reference says what the gateway does: every route, every field, every real answer. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import SwaggerParser from '@apidevtools/swagger-parser';
import { Compile } from 'typebox/compile';
import { isObject } from '../src/core/json.ts';
import { docsPage } from '../src/http/docs-page.ts';
import { openApiDocument } from '../src/http/openapi-document.ts';
import type { Route } from '../src/http/routes.ts';
import { say, startFakeUpstream, words } from './support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from './support/in-process.ts';
import { routesInCode } from './support/routes-in-code.ts';

type Json = Record<string, unknown>;

const upstream = startFakeUpstream();
const voice = {
  id: 'demo/speech',
  name: 'A voice',
  input_modalities: ['text'],
  output_modalities: ['audio'],
  features: ['speech'],
  speech: { style: 'mapped', voices: {}, default_voice: 'a' },
  endpoints: [{ provider: 'fake', model: 'voice', pricing: { characters: '15' } }],
};
let gateway: InProcessGateway;
let document: Json;
let routes: Route[];

beforeAll(async () => {
  routes = await routesInCode();
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  gateway = await InProcessGateway.start({
    logs: { requests: false },
    providers: { fake },
    models: [chatModel('test/chat', [{ provider: 'fake', model: 'chat' }]), voice],
  });
  document = (await gateway.get('/openapi.json')).json;
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const object = (value: unknown): Json => (isObject(value) ? value : {});
const named = ({ method, path }: Pick<Route, 'method' | 'path'>) =>
  `${method} ${path.replace(/:(\w+)(?:\{[^}]*\})?/g, '{$1}')}`;

function operations(): { readonly name: string; readonly operation: Json }[] {
  return Object.entries(object(document.paths)).flatMap(([path, methods]) =>
    Object.entries(object(methods)).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      operation: object(operation),
    })),
  );
}

/** A schema without references, as a validator of its own. */
function whole(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(whole);
  if (!isObject(schema)) return schema;
  const { $ref } = schema;
  if (typeof $ref === 'string') {
    const name = $ref.replace('#/components/schemas/', '');
    return whole(object(object(document.components).schemas)[name]);
  }
  return Object.fromEntries(Object.entries(schema).map(([key, inner]) => [key, whole(inner)]));
}

function mediaOf(name: string): Json {
  const { operation } = operations().find((one) => one.name === name) ?? {};
  return object(object(object(object(operation).requestBody).content)['application/json']);
}

function answerSchema(name: string, status: string, type: string): object {
  const { operation } = operations().find((one) => one.name === name) ?? {};
  const answer = object(object(object(operation).responses)[status]);
  const media = object(object(answer.content)[type]);
  if (!isObject(media.schema)) throw new Error(`Nothing is said of ${name} ${status} ${type}.`);
  return object(whole(media.schema));
}

/** Why a value does not fit; nothing when it does. */
function misfits(schema: object, value: unknown): unknown[] {
  const compiled = Compile(schema as Parameters<typeof Compile>[0]);
  return compiled.Check(value) ? [] : [...compiled.Errors(value)];
}

describe('the document', () => {
  test('has a description of every route; these have none', () => {
    const silent = routes.filter(({ doc }) => doc === undefined).map(named);
    expect(silent).toEqual([]);
  });

  test('has every route and no other, as it is served', () => {
    const told = operations().map(({ name }) => name);
    expect(told.toSorted()).toEqual(routes.map(named).toSorted());
  });

  test('is valid OpenAPI 3.1', async () => {
    expect(document.openapi).toBe('3.1.0');
    await SwaggerParser.validate(structuredClone(document) as never);
  });

  test('asks for the credential that the route asks for', () => {
    for (const { name, operation } of operations()) {
      const route = routes.find((one) => named(one) === name);
      const asked = (Array.isArray(operation.security) ? operation.security : []).flatMap((one) =>
        Object.keys(object(one)),
      );
      const expected = {
        public: [],
        routing: ['routing'],
        management: ['management'],
        either: ['routing', 'management'],
        admin: ['admin'],
      }[route?.access ?? 'public'];
      expect([name, asked]).toEqual([name, [...expected]]);
    }
  });

  test('gives examples that fit its own schemas', () => {
    const examples = operations().flatMap(({ name, operation }) =>
      Object.entries(object(object(operation.requestBody).content))
        .slice(0, 1)
        .map(([type, media]) => ({ name, type, ...object(media) })),
    );
    expect(examples.length).toBeGreaterThan(8);
    for (const media of examples) {
      const { name, type, schema, example } = media as Json;
      if (example === undefined) throw new Error(`${name} has a body and no example of one.`);
      // In a form every value is text, and files are named.
      if (type !== 'application/json') continue;
      expect([name, misfits(object(whole(schema)), example)]).toEqual([name, []]);
    }
  });

  test('refuses two records of one name', () => {
    const route = (type: string): Route => ({
      method: 'GET',
      path: `/${type}`,
      access: 'public',
      doc: { summary: 'A', answers: { 200: { type, title: 'Same' } as never } },
      handle: () => new Response(),
    });
    const facts = { version: '1', url: '/' };
    expect(() => openApiDocument([route('string'), route('string')], facts)).not.toThrow();
    expect(() => openApiDocument([route('string'), route('integer')], facts)).toThrow('Same');
  });
});

describe('real answers fit:', () => {
  const seen = new Set<string>();

  /** Sends a request and holds what comes back against what the document says of it. */
  async function fits(name: string, path: string, key: string, body?: object): Promise<Reply> {
    const [method = ''] = name.split(' ');
    const response = await fetch(gateway.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const text = await response.text();
    const [type = ''] = (response.headers.get('content-type') ?? '').split(';');
    if (!response.ok) throw new Error(`${name} was refused: ${text}`);
    const schema = answerSchema(name, String(response.status), type);
    const value: unknown = type === 'application/json' ? JSON.parse(text) : text;
    expect([name, misfits(schema, value)]).toEqual([name, []]);
    seen.add(name);
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: object(value),
      error: {},
      requestId: response.headers.get('x-request-id') ?? '',
    };
  }

  const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Hello!' }] };

  test('a chat, whole and streamed', async () => {
    const { routing } = gateway.keys;
    const name = 'POST /v1/chat/completions';
    upstream.script('chat', say(words(3)));
    const answered = await fits(name, '/v1/chat/completions', routing, chat);
    const stream = await gateway.stream({ ...chat, stream_options: { include_usage: true } });
    const chunk = answerSchema(name, '200', 'text/event-stream');
    const { chunks } = stream;
    expect(chunks.length).toBeGreaterThan(3);
    for (const one of chunks) expect(misfits(chunk, one)).toEqual([]);
    await fits('GET /v1/generation', `/v1/generation?id=${answered.requestId}`, routing);
    const receipt = `/v1/customer/logs/${answered.requestId}`;
    await fits('GET /v1/customer/logs/{id}', receipt, routing);
  });

  test('what a tenant reads', async () => {
    const { routing, management } = gateway.keys;
    for (const path of [
      '/v1/models',
      '/v1/key',
      '/v1/customer/logs',
      '/v1/customer/logs/export.csv',
      '/v1/customer/analytics',
      '/v1/customer/analytics/export.csv',
      '/v1/customer/billing/usage-statement.csv',
      '/v1/customer/billing/statements',
      '/v1/customer/credits',
      '/v1/customer/models',
      '/v1/customer/skills',
    ]) {
      await fits(`GET ${path}`, path, routing);
    }
    await fits('GET /v1/models/{id}', '/v1/models/test/chat', routing);
    await fits('GET /v1/customer/analytics', '/v1/customer/analytics?group_by=model', routing);
    await fits('GET /api/v1/credits', '/api/v1/credits', management);
    await fits('GET /api/v1/webhook-secret', '/api/v1/webhook-secret', management);
  });

  test('a job, and messages', async () => {
    const { routing } = gateway.keys;
    const { example } = mediaOf('POST /v1/jobs');
    const made = await fits('POST /v1/jobs', '/v1/jobs', routing, object(example));
    const one = `/v1/jobs/${made.json.id}`;
    await fits('GET /v1/jobs/{id}', one, routing);
    await fits('GET /v1/jobs', '/v1/jobs?limit=5&status=queued', routing);
    upstream.script('chat', say('hi'));
    const message = { ...chat, max_tokens: 10 };
    await fits('POST /v1/messages', '/v1/messages', routing, message);
    await fits('POST /v1/messages/count_tokens', '/v1/messages/count_tokens', routing, chat);
  });

  test('what a manager does', async () => {
    const { management } = gateway.keys;
    const made = await fits('POST /api/v1/keys', '/api/v1/keys', management, {
      name: 'one',
      limit: 10,
      limit_reset: 'daily',
    });
    const one = `/api/v1/keys/${object(made.json.data).id}`;
    await fits('GET /api/v1/keys', '/api/v1/keys?include_disabled=true&offset=0', management);
    await fits('GET /api/v1/keys/{id}', one, management);
    await fits('PATCH /api/v1/keys/{id}', one, management, { name: 'two' });
    await fits('POST /api/v1/keys/{id}/rotate', `${one}/rotate`, management, {});
    await fits('DELETE /api/v1/keys/{id}', one, management);
    const own = '/api/v1/byok/fake';
    await fits('PUT /api/v1/byok/{provider}', own, management, { api_key: 'sk-own-0123456789' });
    await fits('GET /api/v1/byok/{provider}', own, management);
    await fits('GET /api/v1/byok', '/api/v1/byok', management);
    await fits('DELETE /api/v1/byok/{provider}', own, management);
    const skill = '/v1/customer/skills/tone';
    const body = { description: 'Our tone', instructions: 'Be brief.' };
    await fits('PUT /v1/customer/skills/{name}', skill, management, body);
    await fits('GET /v1/customer/skills/{name}', skill, management);
    await fits('DELETE /v1/customer/skills/{name}', skill, management);
  });

  test('what an operator does', async () => {
    const { admin } = gateway.keys;
    const tenants = '/admin/v1/tenants';
    await fits(`POST ${tenants}`, tenants, admin, { id: 'acme', name: 'Acme' });
    await fits(`GET ${tenants}`, tenants, admin);
    await fits(`GET ${tenants}/{id}`, `${tenants}/acme`, admin);
    await fits(`PATCH ${tenants}/{id}`, `${tenants}/acme`, admin, { requests_per_minute: 5 });
    const grant = { amount: 5, idempotency_key: 'a' };
    await fits(`POST ${tenants}/{id}/credits`, `${tenants}/acme/credits`, admin, grant);
    await fits(`POST ${tenants}/{id}/credits`, `${tenants}/acme/credits`, admin, grant);
    await fits(`GET ${tenants}/{id}/credits`, `${tenants}/acme/credits`, admin);
    await fits(`POST ${tenants}/{id}/keys`, `${tenants}/acme/keys`, admin, { name: 'first' });
    for (const path of ['/admin/v1/overview', '/admin/v1/providers', '/admin/v1/books']) {
      await fits(`GET ${path}`, path, admin);
    }
  });

  test('what anybody may ask', async () => {
    const { routing } = gateway.keys;
    for (const path of ['/', '/api/hello', '/healthz', '/readyz', '/metrics', '/openapi.json']) {
      await fits(`GET ${path}`, path, routing);
    }
    await fits('GET /docs', '/docs', routing);
  });

  test('every JSON route that is described was asked; these were not', () => {
    const isJson = (operation: Json) =>
      Object.entries(object(operation.responses)).some(
        ([status, answer]) =>
          status.startsWith('2') && 'application/json' in object(object(answer).content),
      );
    // A job that has ended cannot be cancelled, and who is faster is not for this test to say.
    const elsewhere = /\/(?:embeddings|audio|images)\b|^DELETE \/v1\/jobs/;
    const missing = operations()
      .filter(
        ({ name, operation }) => isJson(operation) && !seen.has(name) && !elsewhere.test(name),
      )
      .map(({ name }) => name);
    expect(missing).toEqual([]);
  });
});

describe('refusals', () => {
  test.each([
    ['a body that does not fit', '/v1/chat/completions', { model: 5 }, 400],
    ['a key that nobody has', '/v1/chat/completions', undefined, 400],
  ])('%s fits the error of the document', async (_, path, body, status) => {
    const reply = await gateway.post(body ?? '[]', { path });
    expect(reply.status).toBe(status);
    const schema = answerSchema(`POST ${path}`, 'default', 'application/json');
    expect(misfits(schema, reply.json)).toEqual([]);
  });

  test.each([
    ['/v1/customer/logs?limit=0', 'limit'],
    ['/v1/customer/logs?limit=ten', 'limit'],
    ['/v1/customer/logs?offset=-1', 'offset'],
    ['/v1/customer/logs?offset=99999999999999999999', 'offset'],
    ['/v1/customer/logs?status=done', 'status'],
    ['/v1/customer/analytics?group_by=mood', 'group_by'],
    ['/v1/customer/billing/statements?months=0', 'months'],
  ])('%s names the parameter', async (path, param) => {
    const { status, error } = await gateway.get(path);
    expect([status, error.param]).toEqual([400, param]);
    expect(String(error.message)).toStartWith(`${param} must be `);
  });
});

describe('the page', () => {
  test('names every route, and loads and runs nothing', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const html = await response.text();
    for (const { name } of operations())
      expect(html).toContain(`<code>${name.split(' ')[1]}</code>`);
    expect(html).not.toMatch(/<script|<link|<img|<iframe|\son\w+=|@import|url\(|\sstyle=/i);
    const addresses = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, to = '']) => to);
    expect(addresses.filter((to) => !/^(?:#|\/openapi\.json$)/.test(to))).toEqual([]);
    const ids = new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => id));
    expect(addresses.filter((to) => to.startsWith('#') && !ids.has(to.slice(1)))).toEqual([]);
  });

  test('allows its own style and nothing else', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(await response.text()) ?? [];
    const hash = createHash('sha256').update(style).digest('base64');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy.split('; ')).toContain(`style-src 'sha256-${hash}'`);
    expect(policy).toStartWith("default-src 'none'; ");
    expect(policy).not.toContain('unsafe');
  });

  test('shows hostile words as words', () => {
    const hostile = `"><script>alert('1')</script>`;
    const route: Route = {
      method: 'GET',
      path: `/${hostile}`,
      access: 'public',
      doc: { summary: hostile, details: hostile, answers: {} },
      handle: () => new Response(),
    };
    const html = docsPage(openApiDocument([route], { version: hostile, url: '/' }), 'http://a');
    expect(html).not.toContain('<script');
    expect(html).toContain('&lt;script&gt;');
  });

  test('shows a line for curl that can be pasted', async () => {
    const html = await (await fetch(`${gateway.url}/docs`)).text();
    expect(html).toContain('-H &quot;Authorization: Bearer $KEY&quot;');
    expect(html).toContain('&quot;messages&quot;:[{&quot;role&quot;:&quot;user&quot;');
  });
});
