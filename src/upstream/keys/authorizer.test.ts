import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { json, redirect, startFakeUpstream, status } from '../../../tests/support/fake-upstream.ts';
import {
  privateLine,
  readAssertion,
  serviceAccount,
} from '../../../tests/support/service-account.ts';
import { readProviderKey } from '../../core/provider-key.ts';
import { ServiceAccountToken } from './authorizer.ts';

const server = startFakeUpstream();
afterAll(() => server.stop());
beforeEach(() => server.reset());

const tokenUrl = `${server.url}/token`;
const token = (name: string, seconds: unknown = 3_599) =>
  json(200, { access_token: name, expires_in: seconds, token_type: 'Bearer' });

const long = json(200, { access_token: 'a', expires_in: 3_599, more: 'x'.repeat(65_536) });

function account() {
  const key = readProviderKey(serviceAccount(tokenUrl), 'gemini');
  if (typeof key === 'string' || key.kind !== 'service_account') throw new Error('Invalid key.');
  return key;
}

describe('ServiceAccountToken', () => {
  test('requests a token with a signed assertion for one hour', async () => {
    server.script('/token', token('ya29.one'));
    expect(await new ServiceAccountToken(account()).get()).toBe('ya29.one');
    const [requested] = server.requests;
    expect(requested?.headers['content-type']).toBe('application/x-www-form-urlencoded');
    const { claims, ...rest } = readAssertion(Buffer.from(requested?.raw ?? []).toString());
    expect(rest).toEqual({
      grantType: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      header: { alg: 'RS256', typ: 'JWT', kid: 'a1b2c3d4e5f6' },
      isSigned: true,
    });
    expect(claims).toMatchObject({
      iss: 'gateway@acme-models.iam.gserviceaccount.com',
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      aud: tokenUrl,
    });
    expect(Number(claims.exp) - Number(claims.iat)).toBe(3_600);
  });

  test('sends one token request for concurrent callers', async () => {
    server.script('/token', [token('ya29.one'), token('ya29.two')]);
    const tokens = new ServiceAccountToken(account());
    const all = await Promise.all(Array.from({ length: 20 }, () => tokens.get()));
    expect(new Set([...all, await tokens.get()])).toEqual(new Set(['ya29.one']));
    expect(server.requests).toHaveLength(1);
  });

  test('renews the token a minute before it expires', async () => {
    server.script('/token', [token('ya29.one', 3_600), token('ya29.two', 3_600)]);
    let now = 0;
    const tokens = new ServiceAccountToken(account(), () => now);
    expect(await tokens.get()).toBe('ya29.one');
    now = 3_539_999;
    expect(await tokens.get()).toBe('ya29.one');
    now = 3_540_000;
    expect(await tokens.get()).toBe('ya29.two');
  });

  test('renews a rejected token only if it was accepted before', async () => {
    server.script('/token', [token('ya29.one'), token('ya29.two')]);
    const tokens = new ServiceAccountToken(account());
    await tokens.get();
    expect(tokens.rejected('ya29.one')).toBe(false);
    tokens.accepted('ya29.one');
    expect(tokens.rejected('ya29.one')).toBe(true);
    // A second request was in flight with the same token.
    expect(tokens.rejected('ya29.one')).toBe(true);
    expect(tokens.last).toBe('ya29.one');
    expect(await tokens.get()).toBe('ya29.two');
    expect(tokens.rejected('ya29.two')).toBe(false);
    expect(server.requests).toHaveLength(2);
  });

  test('for a minute, keeps using a token that was rejected at its first use', async () => {
    server.script('/token', [token('ya29.one'), token('ya29.two')]);
    let now = 0;
    const tokens = new ServiceAccountToken(account(), () => now);
    await tokens.get();
    expect(tokens.rejected('ya29.one')).toBe(false);
    now = 59_999;
    expect(await tokens.get()).toBe('ya29.one');
    expect(tokens.rejected('ya29.one')).toBe(false);
    now = 60_000;
    expect(await tokens.get()).toBe('ya29.two');
  });

  test.each([
    ['status 400', status(400), 'credential', '(status 400)'],
    ['an error code', json(400, { error: 'invalid_grant' }), 'credential', 'invalid_grant'],
    ['a malformed code', json(401, { error: privateLine }), 'credential', '401).'],
    ['status 503', status(503), 'unreachable', '(status 503)'],
    ['status 429', status(429), 'unreachable', '(status 429)'],
    ['a redirect', redirect('http://127.0.0.1:1/'), 'unreachable', '(status 302)'],
    ['no token', json(200, { expires_in: 3_599 }), 'unreachable', 'response is invalid'],
    ['a token with a line break', token('two\r\nlines'), 'unreachable', 'response is invalid'],
    ['a textual lifetime', token('ya29.one', 'long'), 'unreachable', 'response is invalid'],
    ['a lifetime of 0', token('ya29.one', 0), 'unreachable', 'response is invalid'],
    ['a response that is too long', long, 'unreachable', 'response is invalid'],
    ['a long token', token('x'.repeat(16_385)), 'unreachable', 'response is invalid'],
  ])('rejects with an InvalidKeyError after %s, and the next call tries again', async (...row) => {
    const [, answer, kind, message] = row;
    server.script('/token', [answer, token('ya29.later')]);
    const tokens = new ServiceAccountToken(account());
    const error = await tokens.get().catch((cause: unknown) => cause);
    expect(error).toMatchObject({ kind, message: expect.stringContaining(message) });
    expect(String(error)).not.toContain(privateLine);
    expect(await tokens.get()).toBe('ya29.later');
  });

  test('rejects when the token server is unreachable', async () => {
    const disconnected = { ...account(), tokenUrl: 'http://127.0.0.1:1/token' };
    const error = new ServiceAccountToken(disconnected).get();
    await expect(error).rejects.toMatchObject({ kind: 'unreachable' });
  });
});
