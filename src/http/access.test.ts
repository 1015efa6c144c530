import { beforeEach, describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { generateAdminToken, generateKey, hashKey } from '../auth/api-key.ts';
import { Authenticator } from '../auth/authenticate.ts';
import { GatewayError } from '../core/errors.ts';
import { authorizeAdmin, authorizeKey, scopeError } from './access.ts';
import type { KeyedRoute } from './routes.ts';

const token = generateAdminToken();
let authenticator: Authenticator;

/** Creates an authenticator that knows the admin token, but no keys. */
beforeEach(() => {
  authenticator = new Authenticator({
    findKey: async () => undefined,
    adminTokenHash: async () => hashKey(token),
    markUsed: async () => undefined,
    purgeUnusedKeys: async () => undefined,
  });
});

const route: KeyedRoute = {
  method: 'POST',
  path: '/v1/chat/completions',
  access: 'routing',
  scope: 'chat',
  handle: () => new Response(),
};

/** Returns the status and message of the error, or '' if access is allowed. */
async function errorOf(authorize: (request: Request) => unknown, key: string): Promise<string> {
  const request = new Request('http://gateway/', { headers: { authorization: `Bearer ${key}` } });
  try {
    await authorize(request);
    return '';
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.message}`;
    throw error;
  }
}

describe('authorizeAdmin', () => {
  const resultFor = (key: string) =>
    errorOf((request) => authorizeAdmin(request, authenticator), key);

  test('accepts the admin token', async () => {
    expect(await resultFor(token)).toBe('');
  });

  test.each(['routing', 'management'] as const)(
    'returns 401, not 403, for an unknown %s key',
    async (kind) => {
      expect(await resultFor(generateKey(kind).text)).toStartWith("401 The API key isn't valid");
    },
  );

  test('returns 401 for an unknown admin token', async () => {
    expect(await resultFor(generateAdminToken())).toBe("401 The admin token isn't valid.");
  });
});

describe('authorizeKey', () => {
  const resultFor = (key: string) =>
    errorOf((request) => authorizeKey(route, request, authenticator), key);

  test('returns 403 for the admin token and names the routes that accept it', async () => {
    expect(await resultFor(token)).toStartWith('403 The admin token works only for /admin/v1.');
  });

  test('returns the same 401 for an unknown admin token as for an unknown key', async () => {
    expect(await resultFor(generateAdminToken())).toStartWith("401 The API key isn't valid");
  });
});

describe('scopeError', () => {
  test('rejects a key whose scopes do not include the scope that the route requires', () => {
    expect(scopeError(route, callerOf('acme', { scopes: ['chat'] }))).toBeUndefined();
    expect(scopeError(route, callerOf('acme', { scopes: ['embeddings'] }))?.status).toBe(403);
    expect(scopeError(route, callerOf('acme', { scopes: [] }))?.status).toBe(403);
  });

  test('accepts keys without a list of scopes and management keys', () => {
    expect(scopeError(route, callerOf('acme', { scopes: null }))).toBeUndefined();
    const manager = callerOf('acme', { kind: 'management', scopes: [] });
    expect(scopeError(route, manager)).toBeUndefined();
  });
});
