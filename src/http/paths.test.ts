import { describe, expect, test } from 'bun:test';
import { normalizePath } from './paths.ts';

describe('normalizePath for endpoints', () => {
  const plain = { openRouterStyle: false, anthropicStyle: false };
  const openRouter = { ...plain, openRouterStyle: true };
  const anthropic = { ...plain, anthropicStyle: true };

  test.each([
    ['/v1/chat/completions', '/v1/chat/completions', plain],
    ['/chat/completions', '/v1/chat/completions', plain],
    ['/v1/v1/chat/completions', '/v1/chat/completions', plain],
    ['/v1/chat/completions/', '/v1/chat/completions', plain],
    ['//v1//chat//completions//', '/v1/chat/completions', plain],
    ['/openai/v1/chat/completions', '/v1/chat/completions', plain],
    ['/openai/chat/completions', '/v1/chat/completions', plain],
    ['/v1/chat/completions/chat/completions', '/v1/chat/completions', plain],
    ['/v1/chat/completions/v1/chat/completions', '/v1/chat/completions', plain],
    ['/v1/chat/completions/models', '/v1/models', plain],
    ['/v1/responses/responses', '/v1/responses', plain],
    ['/v1/embeddings/embeddings', '/v1/embeddings', plain],
    ['/v1/audio/speech/audio/speech', '/v1/audio/speech', plain],
    ['/v1/messages/v1/messages', '/v1/messages', anthropic],
    ['/v1/messages/v1/messages/count_tokens', '/v1/messages/count_tokens', anthropic],
    ['/api/v1/chat/completions', '/v1/chat/completions', openRouter],
    ['/api/v1/embeddings', '/v1/embeddings', openRouter],
    ['/api/v1/models', '/v1/models', openRouter],
    ['/v1/messages', '/v1/messages', anthropic],
    ['/messages', '/v1/messages', anthropic],
    ['/v1/v1/messages', '/v1/messages', anthropic],
    ['/anthropic/v1/messages', '/v1/messages', anthropic],
    ['/anthropic/messages', '/v1/messages', anthropic],
    ['/v1/anthropic/messages', '/v1/messages', anthropic],
    ['/v1/anthropic/v1/messages', '/v1/messages', anthropic],
    ['/v1/anthropic/v1/messages/count_tokens', '/v1/messages/count_tokens', anthropic],
    ['/anthropic/v1/models', '/v1/models', anthropic],
    ['/v1/models/acme/chat-large', '/v1/models/acme/chat-large', plain],
    ['/v1/models/openai/gpt-x', '/v1/models/openai/gpt-x', plain],
    ['/audio/speech', '/v1/audio/speech', plain],
    ['/v1/anthropic/api/hello', '/api/hello', anthropic],
    ['/v1/api/hello/', '/api/hello', plain],
    ['/v1/customer/logs', '/v1/customer/logs', plain],
    ['/responses', '/v1/responses', plain],
    ['/embeddings', '/v1/embeddings', plain],
    ['/images/edits', '/v1/images/edits', plain],
    ['/models', '/v1/models', plain],
    ['/openai/jobs/job_1', '/v1/jobs/job_1', plain],
    ['/openai/objects/obj_1', '/v1/objects/obj_1', plain],
    ['/api/v1/generation', '/v1/generation', openRouter],
    ['/api/v1/key', '/v1/key', openRouter],
    ['/customer/logs', '/v1/customer/logs', plain],
  ])('maps %s to %s', (pathname, path, style) => {
    expect(normalizePath(pathname)).toEqual({ path, ...style });
  });
});

describe('normalizePath for other paths', () => {
  test.each([
    ['/', '/'],
    ['', '/'],
    ['/healthz/', '/healthz'],
    ['/api/hello', '/api/hello'],
    ['/api/v1/keys', '/api/v1/keys'],
    ['/api/v1/keys/key_1/rotate', '/api/v1/keys/key_1/rotate'],
    ['/api/v1/credits', '/api/v1/credits'],
    ['/api/v1/byok/acme', '/api/v1/byok/acme'],
    ['//api//v1//keys', '/api/v1/keys'],
    ['/admin/v1/tenants', '/admin/v1/tenants'],
    ['/admin/v1/chat/completions', '/admin/v1/chat/completions'],
    ['/v1/nowhere', '/v1/nowhere'],
    ['/v1/responses/resp_1/cancel', '/v1/responses/resp_1/cancel'],
    ['/v1/messages/batches', '/v1/messages/batches'],
    ['/v1/models/models/models', '/v1/models/models/models'],
    ['/v1', '/v1'],
    ['/constructor/v1/models', '/constructor/v1/models'],
    ['/v1/toString/models', '/v1/toString/models'],
  ])('maps %s to %s', (pathname, path) => {
    expect(normalizePath(pathname)).toMatchObject({ path, openRouterStyle: false });
  });

  test.each([
    '//metrics',
    '/metrics/',
    '/metrics//',
    '//admin/v1/x',
    '/admin//v1/x',
    '/admin/v1/x/',
  ])(
    'leaves %s unchanged, because proxies block /metrics and /admin as they are sent',
    (pathname) => {
      expect(normalizePath(pathname).path).toBe(pathname);
      expect(normalizePath('/metrics').path).toBe('/metrics');
    },
  );

  test('does not map prefixed paths to management or admin routes', () => {
    for (const prefix of ['/v1', '/openai', '/anthropic', '/v1/v1', '/api']) {
      for (const path of ['/api/v1/keys', '/admin/v1/tenants']) {
        expect(normalizePath(prefix + path).path).toBe(prefix + path);
      }
    }
  });

  test('does not change a normalized path', () => {
    for (const path of [
      '/v1/v1/chat/completions',
      '/api/v1/keys',
      '/x//y',
      '/anthropic/messages',
      '/v1/messages/messages/messages',
    ]) {
      const normalized = normalizePath(path).path;
      expect(normalizePath(normalized).path).toBe(normalized);
    }
  });
});
