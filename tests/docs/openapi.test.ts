/** The reference says what the gateway does: every route and field. Answers are tested apart. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import SwaggerParser from '@apidevtools/swagger-parser';
import { openApiDocument } from '../../src/contract/openapi.ts';
import type { Route } from '../../src/http/routes.ts';
import { docsPage } from '../../src/http/system/reference-page.ts';
import { type OpenApiChecker, type Json, schemaErrors, object } from '../support/openapi-checker.ts';
import { CheckedGateway } from '../support/checked-gateway.ts';
import type { InProcessGateway } from '../support/in-process.ts';
import { routesInCode } from '../support/routes-in-code.ts';

let rig: CheckedGateway;
let gateway: InProcessGateway;
let api: OpenApiChecker;
let document: Json;
let routes: Route[];

beforeAll(async () => {
  routes = await routesInCode();
  rig = await CheckedGateway.start();
  ({ gateway, api } = rig);
  document = (await gateway.get('/openapi.json')).json;
});
afterAll(() => rig.stop());

const named = ({ method, path }: Pick<Route, 'method' | 'path'>) =>
  `${method} ${path.replace(/:(\w+)(?:\{[^}]*\})?/g, '{$1}')}`;

/** Messages also have the names that Anthropic's SDKs make of the base URL `…/v1/anthropic`. */
const underTwoNames: [string, string][] = [
  ['/v1/messages', '/v1/anthropic/messages'],
  ['/v1/messages/count_tokens', '/v1/anthropic/messages/count_tokens'],
];
const idOfPost = (path: string) => `post${path.replaceAll('/', '_')}`;

/** The records that are referred to. */
const recordsIn = (schema: unknown) =>
  [...JSON.stringify(schema).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
    ([, name = '']) => name,
  );

function hasOpenObject(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.some(hasOpenObject);
  const { properties, additionalProperties, ...rest } = object(schema);
  const isOpen = properties !== undefined && additionalProperties !== false;
  return isOpen || Object.values({ ...rest, ...object(properties) }).some(hasOpenObject);
}

describe('the document', () => {
  test('has a description of every route; these have none', () => {
    const silent = routes.filter(({ doc }) => doc === undefined).map(named);
    expect(silent).toEqual([]);
  });

  test('has every route and no other, as it is served', () => {
    const told = api.operations.map(({ name }) => name);
    const served = [...routes.map(named), ...underTwoNames.map(([, other]) => `POST ${other}`)];
    expect(told.toSorted()).toEqual(served.toSorted());
  });

  test.each(underTwoNames)('describes %s alike at %s', (path, other) => {
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

  test('asks for the credential that the route asks for', () => {
    for (const { name, operation } of api.operations) {
      const served = name.replace('/v1/anthropic/', '/v1/');
      const route = routes.find((one) => named(one) === served);
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
    const examples = api.operations.flatMap(({ name, operation }) =>
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
      expect([name, schemaErrors(object(api.resolveSchema(schema)), example)]).toEqual([name, []]);
    }
  });

  test('closes its own records: only those that providers may say more in stay open', () => {
    const schemas = object(object(document.components).schemas);
    const answers = api.operations.map(({ operation }) => operation.responses);
    const told = new Set(recordsIn(answers));
    for (const name of told) for (const inner of recordsIn(schemas[name])) told.add(inner);
    const open = [...told].filter((name) => hasOpenObject(schemas[name]));
    expect(open.toSorted()).toEqual([
      ...['ChatChunk', 'ChatCompletion', 'ContentBlock', 'Embeddings', 'Images', 'Message'],
      ...['MessageEvent', 'OutputItem', 'Response', 'ResponseEvent', 'ToolCall', 'Transcript'],
      ...['TranscriptSegment', 'TranscriptWord', 'Usage'],
    ]);
    const inPlace = api.operations.filter(({ operation }) => hasOpenObject(operation.responses));
    const names = inPlace.map(({ name }) => name);
    const counting = underTwoNames[1]?.map((path) => `POST ${path}`) ?? [];
    expect(names).toEqual([...counting, 'GET /openapi.json']);
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

test.each([
  ['/v1/customer/logs?limit=0', 'limit'],
  ['/v1/customer/logs?limit=ten', 'limit'],
  ['/v1/customer/logs?offset=-1', 'offset'],
  ['/v1/customer/logs?offset=99999999999999999999', 'offset'],
  ['/v1/customer/logs?status=done', 'status'],
  ['/v1/customer/analytics?group_by=mood', 'group_by'],
  ['/v1/customer/billing/statements?months=0', 'months'],
])('%s is refused and names the parameter', async (path, param) => {
  const { status, error } = await gateway.get(path);
  expect([status, error.param]).toEqual([400, param]);
  expect(String(error.message)).toStartWith(`${param} must be `);
});

describe('the page', () => {
  test('names every route, and loads and runs nothing', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const html = await response.text();
    for (const { name } of api.operations)
      expect(html).toContain(`<code>${name.split(' ')[1]}</code>`);
    expect(html).not.toMatch(/<script|<link|<img|<iframe|\son\w+=|@import|url\(|\sstyle=/i);
    const addresses = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, to = '']) => to);
    expect(addresses.filter((to) => !/^(?:#|\/openapi\.json$)/.test(to))).toEqual([]);
    const ids = new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => id));
    expect(addresses.filter((to) => to.startsWith('#') && !ids.has(to.slice(1)))).toEqual([]);
  });

  test('tells the bounds of a field, and is asked for each time', async () => {
    const response = await fetch(`${gateway.url}/docs`);
    const html = await response.text();
    expect(html).toContain('string, up to 4096 or null');
    expect(html).toContain('number, 0 to 1 or null');
    expect(html).toContain('integer, from 0, default 0');
    expect(html).toContain('A file of up to 25 MB:');
    expect(html).toContain('The body may have up to 100 MB,');
    expect(response.headers.get('cache-control')).toBe('no-cache');
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
