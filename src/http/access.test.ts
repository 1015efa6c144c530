import { beforeEach, describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { generateAdminToken, generateKey, hashKey } from '../auth/api-key.ts';
import { Authenticator } from '../auth/authenticate.ts';
import { GatewayError } from '../core/errors.ts';
import { authorizeAdmin, authorizeKey, scopeError } from './access.ts';
import type { KeyedRoute } from './routes.ts';

const token = generateAdminToken();
let authenticator: Authenticator;

/** Knows the operator and no tenant; nobody has presented anything before. */
beforeEach(() => {
  authenticator = new Authenticator({
    findKey: async () => undefined,
    adminTokenHash: async () => hashKey(token),
    markUsed: async () => undefined,
  });
});

const route: KeyedRoute = {
  method: 'POST',
  path: '/v1/chat/completions',
  access: 'routing',
  scope: 'chat',
  handle: () => new Response(),
};

/** Status and message of a refusal; empty where there is none. */
async function refusal(admit: (request: Request) => unknown, key: string): Promise<string> {
  const request = new Request('http://gateway/', { headers: { authorization: `Bearer ${key}` } });
  try {
    await admit(request);
    return '';
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.message}`;
    throw error;
  }
}

describe('at the operator’s door', () => {
  const enter = (key: string) => refusal((request) => authorizeAdmin(request, authenticator), key);

  test('the admin token is let in', async () => {
    expect(await enter(token)).toBe('');
  });

  test.each(['routing', 'management'] as const)(
    'a %s key that nobody has is 401 when it is first tried there: a 403 would confirm it',
    async (kind) => {
      expect(await enter(generateKey(kind).text)).toStartWith('401 The API key is not valid');
    },
  );

  test('another admin token is told that it is the token that is wrong', async () => {
    expect(await enter(generateAdminToken())).toBe('401 The admin token is not valid.');
  });
});

describe('at a tenant’s door', () => {
  const enter = (key: string) =>
    refusal((request) => authorizeKey(route, request, authenticator), key);

  test('the admin token is told where it belongs', async () => {
    expect(await enter(token)).toStartWith('403 The admin token works only for /admin/v1.');
  });

  test('a guessed admin token is not told whether it is one', async () => {
    expect(await enter(generateAdminToken())).toStartWith('401 The API key is not valid');
  });
});

describe('a scope', () => {
  test('shuts out the applications that do not have it', () => {
    expect(scopeError(route, callerOf('acme', { scopes: ['chat'] }))).toBeUndefined();
    expect(scopeError(route, callerOf('acme', { scopes: ['embeddings'] }))?.status).toBe(403);
    expect(scopeError(route, callerOf('acme', { scopes: [] }))?.status).toBe(403);
  });

  test('binds only applications whose key has a list of them', () => {
    expect(scopeError(route, callerOf('acme', { scopes: null }))).toBeUndefined();
    const manager = callerOf('acme', { kind: 'management', scopes: [] });
    expect(scopeError(route, manager)).toBeUndefined();
  });
});
