import { describe, expect, test } from 'bun:test';
import { makeKey, makeTenant } from '../../tests/contracts/engines.ts';
import { callerForKey } from './authenticate.ts';
import type { ApiKey, Tenant } from './directory.ts';

const now = Date.UTC(2026, 10, 15, 12);

/** The caller of a job's key as it stands now, or why there is none. */
async function outcome(key: ApiKey | undefined, tenant: Tenant | undefined): Promise<string> {
  const directory = { getKey: async () => key, getTenant: async () => tenant };
  try {
    const { tenantId, keyId } = await callerForKey(directory, 'ten_1', 'key_1', now);
    return `${tenantId} ${keyId}`;
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
}

describe('a job’s key', () => {
  const tenant = makeTenant({ id: 'ten_1' });
  const keyOf = (change: Partial<ApiKey> = {}) =>
    makeKey('ten_1', { id: 'key_1', scopes: ['jobs'], ...change });

  test('does its work as long as it is good', async () => {
    expect(await outcome(keyOf(), tenant)).toBe('ten_1 key_1');
    expect(await outcome(keyOf({ expiresAt: now + 1 }), tenant)).toBe('ten_1 key_1');
  });

  test('does none when it, or its tenant, is gone, disabled or has expired', async () => {
    const deleted = 'The API key of this job has been deleted.';
    expect(await outcome(undefined, tenant)).toBe(deleted);
    expect(await outcome(keyOf(), undefined)).toBe(deleted);
    expect(await outcome(keyOf({ disabled: true }), tenant)).toBe('This API key is disabled.');
    const closed = { ...tenant, disabled: true };
    expect(await outcome(keyOf(), closed)).toBe('This account is disabled.');
    const expired = 'The API key of this job has expired.';
    expect(await outcome(keyOf({ expiresAt: now }), tenant)).toBe(expired);
  });

  test('does none when jobs were taken from its scopes', async () => {
    expect(await outcome(keyOf({ scopes: ['chat', 'jobs'] }), tenant)).toBe('ten_1 key_1');
    const taken = 'The API key of this job no longer has the scope "jobs".';
    expect(await outcome(keyOf({ scopes: ['chat', 'audio'] }), tenant)).toBe(taken);
  });
});
