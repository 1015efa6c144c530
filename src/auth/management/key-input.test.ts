import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../core/errors.ts';
import type { ApiKey } from '../tenant-directory.ts';
import { readKeyChange, readNewKey, readOverlap } from './key-input.ts';

const now = Date.UTC(2026, 10, 15, 12);
/** The highest limit of requests per minute that a key can have. */
const requestsMax = 100;
const key: ApiKey = {
  id: 'key_a',
  tenantId: 'acme',
  kind: 'routing',
  label: 'sk-tg-a…a',
  name: 'a',
  disabled: false,
  limitCredits: 10,
  limitReset: 'daily',
  models: ['demo/*'],
  scopes: null,
  requestsPerMinute: null,
  cacheMode: null,
  createdAt: now,
  updatedAt: now,
  expiresAt: null,
  lastUsedAt: null,
};

function errorOf(read: () => unknown): { message: string; param: string | null; status: number } {
  try {
    read();
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('No error was thrown.');
}
const newKeyError = (body: unknown) => errorOf(() => readNewKey(body, requestsMax, now));
const changeError = (body: unknown, of = key) =>
  errorOf(() => readKeyChange(body, of, requestsMax, now));

describe('readNewKey', () => {
  const bodies: Readonly<Record<string, readonly unknown[]>> = {
    name: [
      '',
      ' ',
      '\u00a0\u3000',
      'a'.repeat(201),
      'a\nb',
      'a\u0000',
      '\u001b[31mred',
      '\u009b1m',
      'a\u202eb',
      5,
      null,
    ],
    limit: [-1, 1.5, '5', true, 2 ** 53, Number.POSITIVE_INFINITY, [], {}],
    limit_reset: ['hourly', 'Daily', '', 1],
    expires_at: [
      '2026-11-15T12:00:00Z',
      '2020-01-01T00:00:00Z',
      '2027-02-30T00:00:00Z',
      '2027-13-01T00:00:00Z',
      '2027-01-01T00:00:00+02:00',
      '2027-01-01T00:00:00',
      '2027-01-01',
      'tomorrow',
      1_800_000_000_000,
    ],
    models: [[], 'demo/*', {}],
    scopes: [[], 'chat', Array.from({ length: 7 }, () => 'chat')],
    requests_per_minute: [0, -1, 1.5, '60', 101],
    cache: ['on', true, ''],
    management: ['true', 1],
  };
  const cases = Object.entries(bodies).flatMap(([field, values]) =>
    values.map((value): [string, unknown] => [field, value]),
  );
  test.each(cases)('rejects the %s %p', (field, value) => {
    const body = { name: 'a', limit: field === 'limit_reset' ? 5 : null, [field]: value };
    const { message, param, status } = newKeyError(body);
    expect({ param, status }).toEqual({ param: field, status: 400 });
    expect(message).toStartWith(`${field} `);
    expect(message).not.toContain('\n');
  });

  test.each([
    ['models[1]', { models: ['demo/*', '*/chat'] }],
    ['models[0]', { models: ['a b'] }],
    ['models[0]', { models: [''] }],
    ['models[0]', { models: ['a'.repeat(201)] }],
    ['models[0]', { models: [null] }],
    ['scopes[1]', { scopes: ['chat', 'admin'] }],
  ])('names the invalid field %s of %j', (path, body) => {
    expect(newKeyError({ name: 'a', ...body }).param).toBe(path);
  });

  test('rejects more than 200 models', () => {
    const models = Array.from({ length: 201 }, (_, i) => `demo/model-${i}`);
    expect(newKeyError({ name: 'a', models }).param).toBe('models');
  });

  test('rejects unknown fields and suggests a known one', () => {
    expect(newKeyError({ nmae: 'a' })).toMatchObject({
      param: 'nmae',
      message: 'nmae is not a known field; did you mean "name"?',
    });
    expect(newKeyError({ name: 'a', tenant_id: 'other' }).param).toBe('tenant_id');
    expect(newKeyError({ name: 'a', disabled: true }).param).toBe('disabled');
  });

  test('rejects a reset period without a limit', () => {
    expect(newKeyError({ name: 'a', limit_reset: 'daily' }).param).toBe('limit_reset');
  });

  test.each([
    ['limit', { limit: 5 }],
    ['models', { models: ['demo/*'] }],
    ['scopes', { scopes: ['customer'] }],
  ])('rejects %s for a management key', (param, body) => {
    expect(newKeyError({ name: 'a', management: true, ...body }).param).toBe(param);
  });

  test('rejects a body that is not an object', () => {
    for (const body of [null, [], 'text', 5]) {
      expect(newKeyError(body)).toMatchObject({ param: null, status: 400 });
    }
  });

  test('accepts the highest allowed value of every field', () => {
    const models = Array.from({ length: 200 }, (_, i) => `demo/model-${i}`);
    const read = readNewKey(
      {
        name: '😀'.repeat(200),
        limit: Number.MAX_SAFE_INTEGER,
        limit_reset: 'monthly',
        expires_at: '2026-11-15T12:00:00.001Z',
        models,
        requests_per_minute: 100,
        cache: 'always',
      },
      requestsMax,
      now,
    );
    expect(read).toEqual({
      kind: 'routing',
      name: '😀'.repeat(200),
      limitCredits: 9_007_199_254_740_991,
      limitReset: 'monthly',
      expiresAt: now + 1,
      models,
      scopes: null,
      requestsPerMinute: 100,
      cacheMode: 'always',
    });
  });

  test.each(['2027-01-01T00:00Z', '2027-01-01T00:00:00.000000+00:00'])(
    'accepts the UTC time %s',
    (expires_at) => {
      const { expiresAt } = readNewKey({ name: 'a', expires_at }, requestsMax, now);
      expect(expiresAt).toBe(Date.UTC(2027, 0, 1));
    },
  );

  test('accepts null as no restriction', () => {
    const unrestricted = { limit: null, limit_reset: null, expires_at: null, models: null };
    const more = { scopes: null, requests_per_minute: null, cache: null, management: true };
    expect(readNewKey({ name: 'a', ...unrestricted, ...more }, requestsMax, now).kind).toBe(
      'management',
    );
    expect(readNewKey({ name: 'a', management: null }, requestsMax, now).kind).toBe('routing');
  });

  test('removes duplicate scopes and models', () => {
    const body = { name: 'a', scopes: ['chat', 'audio', 'chat'], models: ['*', 'demo*', '*'] };
    expect(readNewKey(body, requestsMax, now)).toMatchObject({
      scopes: ['chat', 'audio'],
      models: ['*', 'demo*'],
    });
  });

  test('accepts any rate limit from the operator if the tenant has none', () => {
    const read = readNewKey({ name: 'a', requests_per_minute: 1_000_000 }, null, now);
    expect(read.requestsPerMinute).toBe(1_000_000);
  });
});

describe('readKeyChange', () => {
  test('returns only the fields of the request', () => {
    const change = readKeyChange({ disabled: true, models: null }, key, requestsMax, now);
    expect(change).toEqual({ disabled: true, models: null });
    expect(readKeyChange({}, key, requestsMax, now)).toEqual({});
  });

  test('accepts null to remove a restriction, including the expiry', () => {
    const unrestricted = { limit: null, expires_at: null, scopes: null, requests_per_minute: null };
    expect(readKeyChange({ ...unrestricted, cache: null }, key, requestsMax, now)).toEqual({
      limitCredits: null,
      limitReset: null,
      expiresAt: null,
      scopes: null,
      requestsPerMinute: null,
      cacheMode: null,
    });
  });

  test.each([
    ['disabled', null],
    ['disabled', 'true'],
    ['name', null],
    ['name', '  '],
  ])('rejects the %s %j', (field, value) => {
    const { param, status, message } = changeError({ limit: 5, [field]: value });
    expect({ param, status }).toEqual({ param: field, status: 400 });
    expect(message).toStartWith(`${field} must be `);
  });

  test('checks a change together with the current settings of the key', () => {
    expect(readKeyChange({ limit_reset: 'weekly' }, key, requestsMax, now)).toEqual({
      limitReset: 'weekly',
    });
    const unlimited = { ...key, limitCredits: null, limitReset: null };
    expect(changeError({ limit_reset: 'weekly' }, unlimited).param).toBe('limit_reset');
    expect(changeError({ limit: null, limit_reset: 'weekly' }).param).toBe('limit_reset');
    const manager: ApiKey = { ...unlimited, kind: 'management', models: null };
    expect(changeError({ scopes: ['chat'] }, manager).param).toBe('scopes');
  });

  test("allows changes to a key whose rate limit exceeds its tenant's current rate limit", () => {
    const fast = { ...key, requestsPerMinute: 500 };
    expect(readKeyChange({ name: 'b' }, fast, requestsMax, now)).toEqual({ name: 'b' });
    expect(changeError({ requests_per_minute: 500 }, fast).param).toBe('requests_per_minute');
  });

  test('rejects fields that cannot change, such as the kind and the tenant', () => {
    for (const field of ['management', 'kind', 'id', 'tenant_id', 'usage', 'label']) {
      expect(changeError({ [field]: 'x' }).param).toBe(field);
    }
  });
});

test('readOverlap returns 0 by default and accepts at most 1 week', () => {
  expect(readOverlap({})).toBe(0);
  expect(readOverlap({ overlap_seconds: null })).toBe(0);
  expect(readOverlap({ overlap_seconds: 604_800 })).toBe(604_800);
  expect(errorOf(() => readOverlap({ overlap_seconds: 604_801 })).param).toBe('overlap_seconds');
});
