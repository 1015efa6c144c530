/** Checks /openapi.json and /docs. openapi-answers.test.ts compares responses with them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import SwaggerParser from '@apidevtools/swagger-parser';
import { openApiDocument } from '../../src/contract/openapi.ts';
import type { Route } from '../../src/http/routes.ts';
import { docsPage } from '../../src/http/system/reference-page.ts';
import { CheckedGateway } from '../support/checked-gateway.ts';
import type { InProcessGateway } from '../support/in-process.ts';
import {
  type Json,
  type OpenApiChecker,
  object,
  schemaErrors,
} from '../support/openapi-checker.ts';
import { routesInCode } from '../support/routes-in-code.ts';

let checked: CheckedGateway;
let gateway: InProcessGateway;
let api: OpenApiChecker;
let document: Json;
let routes: Route[];

beforeAll(async () => {
  routes = await routesInCode();
  checked = await CheckedGateway.start();
  ({ gateway, api } = checked);
  document = (await gateway.get('/openapi.json')).json;
});
afterAll(() => checked.stop());

const named = ({ method, path }: Pick<Route, 'method' | 'path'>) =>
  `${method} ${path.replace(/:(\w+)(?:\{[^}]*\})?/g, '{$1}')}`;

/** Messages are served below `/v1/anthropic` too, for clients with that base URL. */
const twoPaths: [string, string][] = [
  ['/v1/messages', '/v1/anthropic/messages'],
  ['/v1/messages/count_tokens', '/v1/anthropic/messages/count_tokens'],
];
const idOfPost = (path: string) => `post${path.replaceAll('/', '_')}`;

/** Returns the names of the referenced schemas. */
const referencesIn = (schema: unknown) =>
  [...JSON.stringify(schema).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
    ([, name = '']) => name,
  );

function hasOpenObject(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.some(hasOpenObject);
  const { properties, additionalProperties, ...rest } = object(schema);
  const isOpen = properties !== undefined && additionalProperties !== false;
  return isOpen || Object.values({ ...rest, ...object(properties) }).some(hasOpenObject);
}

describe('GET /openapi.json', () => {
  test('describes every route', () => {
    const undocumented = routes.filter(({ doc }) => doc === undefined).map(named);
    expect(undocumented).toEqual([]);
  });

  test('lists exactly the served routes', () => {
    const documented = api.operations.map(({ name }) => name);
    const served = [...routes.map(named), ...twoPaths.map(([, other]) => `POST ${other}`)];
    expect(documented.toSorted()).toEqual(served.toSorted());
  });

  test.each(twoPaths)('describes %s in the same way as %s', (path, other) => {
    const [{ operationId, ...one }, { operationId: otherId, ...same }] = [path, other].map((at) =>
      object(object(object(document.paths)[at]).post),
    ) as [Json, Json];
    expect(same).toEqual(one);
    expect([operationId, otherId]).toEqual([path, other].map((at) => idOfPost(at)));
  });

  test('is valid OpenAPI 3.1', async () => {
    expect(document.openapi).toBe('3.1.0');
    await SwaggerParser.validate(structuredClone(document) as never);
  });

  test('requires the same kind of key as the route', () => {
    for (const { name, operation } of api.operations) {
      const served = name.replace('/v1/anthropic/', '/v1/');
      const route = routes.find((one) => named(one) === served);
      const documented = (Array.isArray(operation.security) ? operation.security : []).flatMap(
        (one) => Object.keys(object(one)),
      );
      const expected = {
        public: [],
        routing: ['routing'],
        management: ['management'],
        either: ['routing', 'management'],
        admin: ['admin'],
      }[route?.access ?? 'public'];
      expect([name, documented]).toEqual([name, [...expected]]);
    }
  });

  test('has examples that match the schemas', () => {
    const examples = api.operations.flatMap(({ name, operation }) =>
      Object.entries(object(object(operation.requestBody).content))
        .slice(0, 1)
        .map(([type, media]) => ({ name, type, ...object(media) })),
    );
    expect(examples.length).toBeGreaterThan(8);
    for (const media of examples) {
      const { name, type, schema, example } = media as Json;
      if (example === undefined) throw new Error(`${name} has a body but no example.`);
      // Form fields are strings and files, so their example isn't JSON.
      if (type !== 'application/json') continue;
      expect([name, schemaErrors(object(api.resolveSchema(schema)), example)]).toEqual([name, []]);
    }
  });

  test('allows unknown fields only in responses that providers can extend', () => {
    const schemas = object(object(document.components).schemas);
    const answers = api.operations.map(({ operation }) => operation.responses);
    const names = new Set(referencesIn(answers));
    for (const name of names) for (const inner of referencesIn(schemas[name])) names.add(inner);
    const open = [...names].filter((name) => hasOpenObject(schemas[name]));
    expect(open.toSorted()).toEqual([
      ...['ChatChunk', 'ChatCompletion', 'ContentBlock', 'Embeddings', 'Images', 'Message'],
      ...['MessageEvent', 'OutputItem', 'Response', 'ResponseEvent', 'ToolCall', 'Transcript'],
      ...['TranscriptSegment', 'TranscriptWord', 'Usage'],
    ]);
    const inlineOpen = api.operations.filter(({ operation }) => hasOpenObject(operation.responses));
    const operations = inlineOpen.map(({ name }) => name);
    const counting = twoPaths[1]?.map((path) => `POST ${path}`) ?? [];
    expect(operations).toEqual([...counting, 'GET /openapi.json']);
  });

  test('rejects 2 different schemas with the same name', () => {
    const route = (type: string): Route => ({
      method: 'GET',
      path: `/${type}`,
      access: 'public',
      doc: { summary: 'A', responses: { 200: { type, title: 'Same' } as never } },
      handle: () => new Response(),
    });
    const info = { version: '1', url: '/' };
    expect(() => openApiDocument([route('string'), route('string')], info)).not.toThrow();
    expect(() => openApiDocument([route('string'), route('integer')], info)).toThrow('Same');
  });
});

test.each([
  ['/v1/customer/logs?limit=0', 'limit'],
  ['/v1/customer/logs?limit=ten', 'limit'],
  ['/v1/customer/logs?offset=-1', 'offset'],
  ['/v1/customer/logs?offset=99999999999999999999', 'offset'],
  ['/v1/customer/logs?status=done', 'status'],
  ['/v1/customer/analytics?group_by=mood', 'group_by'],
  ['/v1/customer/billing/statements?months=0', 'months'],
])('GET %s returns 400 and names the parameter %s', async (path, param) => {
  const { status, error } = await gateway.get(path);
  expect([status, error.param]).toEqual([400, param]);
  expect(String(error.message)).toStartWith(`${param} must be `);
});

describe('GET /docs', () => {
  test('lists every route and loads no other resources', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const html = await response.text();
    for (const { name } of api.operations)
      expect(html).toContain(`<code>${name.split(' ')[1]}</code>`);
    expect(html).not.toMatch(/<script|<link|<img|<iframe|\son\w+=|@import|url\(|\sstyle=/i);
    const urls = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, to = '']) => to);
    expect(urls.filter((to) => !/^(?:#|\/openapi\.json$)/.test(to))).toEqual([]);
    const ids = new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => id));
    expect(urls.filter((to) => to.startsWith('#') && !ids.has(to.slice(1)))).toEqual([]);
  });

  test('states the bounds of fields and is not cached', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const html = await response.text();
    expect(html).toContain('string, up to 4096 characters or null');
    expect(html).toContain('number, 0 to 1 or null');
    expect(html).toContain('integer, from 0, default 0');
    expect(html).toContain('A file of up to 25 MiB:');
    expect(html).toContain('The body may be up to 100 MiB,');
    expect(response.headers.get('cache-control')).toBe('no-cache');
  });

  test('allows only its inline style in its security policy', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(await response.text()) ?? [];
    const hash = createHash('sha256').update(style).digest('base64');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy.split('; ')).toContain(`style-src 'sha256-${hash}'`);
    expect(policy).toStartWith("default-src 'none'; ");
    expect(policy).not.toContain('unsafe');
  });

  test('escapes HTML', () => {
    const markup = `"><script>alert('1')</script>`;
    const route: Route = {
      method: 'GET',
      path: `/${markup}`,
      access: 'public',
      doc: { summary: markup, details: markup, responses: {} },
      handle: () => new Response(),
    };
    const html = docsPage(openApiDocument([route], { version: markup, url: '/' }), 'http://a');
    expect(html).not.toContain('<script');
    expect(html).toContain('&lt;script&gt;');
  });

  test('shows a curl command for each example', async () => {
    const html = await (await fetch(`${gateway.url}/docs`)).text();
    expect(html).toContain('-H &quot;Authorization: Bearer $KEY&quot;');
    expect(html).toContain('&quot;messages&quot;:[{&quot;role&quot;:&quot;user&quot;');
  });
});
