import { describe, expect, test } from 'bun:test';
import { Router } from './router.ts';
import type { Method, Route } from './routes.ts';

function route(method: Method, path: string): Route {
  return { method, path, access: 'public', handle: () => new Response(path) };
}

const router = new Router([
  route('GET', '/'),
  route('POST', '/v1/chat/completions'),
  route('GET', '/v1/models'),
  route('GET', '/v1/models/:id{.+}'),
  route('POST', '/api/v1/keys'),
  route('GET', '/api/v1/keys'),
  route('GET', '/api/v1/keys/:id'),
  route('DELETE', '/api/v1/keys/:id'),
  route('POST', '/api/v1/keys/:id/rotate'),
]);

const found = (method: string, path: string) => router.match(method, path)?.route.path;

describe('Router.match', () => {
  test('finds a route by method and path', () => {
    expect(found('GET', '/')).toBe('/');
    expect(found('POST', '/v1/chat/completions')).toBe('/v1/chat/completions');
    expect(found('GET', '/v1/chat/completions')).toBeUndefined();
    expect(found('GET', '/v1/chat')).toBeUndefined();
    expect(found('GET', '/V1/models')).toBeUndefined();
  });

  test('matches a parameter to 1 segment', () => {
    const match = router.match('DELETE', '/api/v1/keys/key_1');
    expect(match?.route.path).toBe('/api/v1/keys/:id');
    expect(match?.param('id')).toBe('key_1');
    expect(found('GET', '/api/v1/keys/key_1/rotate')).toBeUndefined();
    expect(router.match('POST', '/api/v1/keys/key_1/rotate')?.param('id')).toBe('key_1');
  });

  test('matches a final {.+} parameter to the rest of the path', () => {
    expect(router.match('GET', '/v1/models/acme/chat-large')?.param('id')).toBe('acme/chat-large');
  });

  test("returns '' for a parameter that the path does not have", () => {
    expect(router.match('GET', '/v1/models')?.param('id')).toBe('');
    expect(router.match('GET', '/api/v1/keys/key_1')?.param('other')).toBe('');
  });

  test('works if no route has parameters', () => {
    const fixed = new Router([route('GET', '/a')]);
    expect(fixed.match('GET', '/a')?.route.path).toBe('/a');
    expect(fixed.match('GET', '/b')).toBeUndefined();
  });
});

test('Router.methodsOf lists the methods of a path', () => {
  expect(router.methodsOf('/api/v1/keys')).toEqual(['GET', 'POST']);
  expect(router.methodsOf('/api/v1/keys/key_1')).toEqual(['GET', 'DELETE']);
  expect(router.methodsOf('/nowhere')).toEqual([]);
});

describe('Router.hint for paths of other APIs', () => {
  test.each([
    ['POST', '/v1/completions', 'POST /v1/chat/completions'],
    ['POST', '/v1/engines/davinci/completions', 'POST /v1/chat/completions'],
    ['GET', '/v1/files/file-1/content', 'Send files in the request'],
    ['GET', '/openai/v1/files', 'Send files in the request'],
    ['GET', '/batches', 'Send single requests in parallel'],
    ['POST', '/v1/threads/thread_1/runs', "Tollgate doesn't store conversations"],
    ['POST', '/v2/rerank', 'POST /v1/embeddings'],
    ['POST', '/v1beta/models/gemini:streamGenerateContent', "Gemini's API format"],
    ['POST', '/v1/ai/language-model', '@ai-sdk/openai-compatible'],
    ['POST', '/v4/ai/embedding-model', '@ai-sdk/openai-compatible'],
    ['GET', '/v1/ai/config', '@ai-sdk/openai-compatible'],
    ['GET', '/livez', 'GET /healthz'],
    ['GET', '/ping', 'GET /healthz'],
    ['GET', '/api/status', 'GET /healthz'],
    ['GET', '/health/readiness', 'GET /readyz'],
    ['GET', '/ui', 'GET /dashboard'],
    ['POST', '/key/generate', 'POST /api/v1/keys'],
  ])('answers %s %s with a suggestion that contains "%s"', (method, path, text) => {
    expect(router.hint(method, path)).toContain(text);
    expect(router.hint(method, path)).not.toMatch(/Did you mean|nearest/);
  });

  test('ignores a name that is only a part of the path', () => {
    expect(router.hint('GET', '/v1/keys/files')).not.toContain("Tollgate doesn't store files");
    expect(router.hint('GET', '/v1/filesystem')).not.toContain("Tollgate doesn't store files");
  });
});

describe('Router.hint for mistyped paths', () => {
  test.each([
    ['POST', '/v1/chat/completion', 'POST /v1/chat/completions'],
    ['POST', '/api/v1/kyes', 'POST /api/v1/keys'],
    ['GET', '/api/v1/kyes', 'GET /api/v1/keys'],
    ['PUT', '/v1/chat/completion', 'POST /v1/chat/completions'],
    ['GET', '/v1/modles', 'GET /v1/models'],
  ])('answers %s %s with "%s"', (method, path, nearest) => {
    expect(router.hint(method, path)).toBe(` Did you mean ${nearest}?`);
  });

  test('names the route with the most common names if none is similar', () => {
    expect(router.hint('GET', '/v1/list/models')).toBe(' The nearest route is GET /v1/models.');
    expect(router.hint('GET', '/v1/all/my/rotate')).toBe(
      ' The nearest route is POST /api/v1/keys/:id/rotate.',
    );
    expect(router.hint('GET', '/v1/models.x/acme/large')).not.toContain('{');
  });

  test('names the route with the same beginning if no name is common', () => {
    expect(router.hint('GET', '/v1/nothing')).toBe(' The nearest route is GET /v1/models.');
    const documented = new Router([route('GET', '/docs'), route('GET', '/v1/models')]);
    const hint = ' The nearest route is GET /v1/models; GET /docs lists all routes.';
    expect(documented.hint('GET', '/v1/nothing')).toBe(hint);
    expect(documented.hint('GET', '/logo')).toBe(' The nearest route is GET /docs.');
  });

  test('compares only the beginning of long paths', () => {
    const hint = ' The nearest route is GET /api/v1/keys/:id.';
    expect(router.hint('GET', `/api/v1/keys/rotate${'x'.repeat(100)}`)).toBe(hint);
    expect(router.hint('GET', `/api/v1/keys${'/rotate'.repeat(9)}`)).toBe(hint);
  });

  test('is empty for a method that no route has', () => {
    expect(router.hint('PATCH', '/wp-admin/setup.php')).toBe('');
  });
});
