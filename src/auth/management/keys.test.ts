import { expect, test } from 'bun:test';
import { keysPerTenantMax } from '../../core/bounds.ts';
import type { Tenant } from '../tenant-directory.ts';
import { createKey, type KeyService, listKeys, spentInPeriod } from './keys.ts';

const tenant: Tenant = {
  id: 'acme',
  name: 'Acme',
  disabled: false,
  requestsPerMinute: null,
  concurrentRequests: null,
  plan: null,
  createdAt: 0,
  updatedAt: 0,
};

/** Returns a service with one tenant that has `keys` keys. */
function serviceWith(keys: number): KeyService {
  const never = () => Promise.reject(new Error('Unexpected call.'));
  const directory: KeyService['directory'] = {
    getTenant: async () => tenant,
    addKey: async (_key, _hash, keysMax = 0) => (keys < keysMax ? 'added' : 'full'),
    getKey: never,
    listKeys: never,
    changeKey: never,
    rotateKey: never,
    deleteKey: never,
  };
  return { directory, spending: { spent: never }, now: () => 0 };
}

test('createKey rejects more keys than a tenant may have', async () => {
  const body = { name: 'one more' };
  const last = await createKey(serviceWith(keysPerTenantMax - 1), 'acme', body);
  expect(last.key.name).toBe('one more');
  const rejected = createKey(serviceWith(keysPerTenantMax), 'acme', body);
  await expect(rejected).rejects.toThrow('already has the maximum of 10000 keys');
});

test('listKeys writes the pending times of last use first', async () => {
  const calls: string[] = [];
  const service = serviceWith(0);
  const list: KeyService['directory']['listKeys'] = async () => {
    calls.push('listKeys');
    return [];
  };
  const markUsed = async () => {
    await Bun.sleep(0);
    calls.push('markUsed');
  };
  const directory = { ...service.directory, listKeys: list };
  const page = { offset: 0, includeDisabled: true };
  const spending = { spent: async () => new Map() };
  expect(await listKeys({ ...service, directory, spending, markUsed }, 'acme', page)).toEqual([]);
  expect(calls).toEqual(['markUsed', 'listKeys']);
});

test('spentInPeriod counts all spending for a limit without a period', () => {
  const spending = { total: 4, daily: 1, weekly: 2, monthly: 3 };
  expect(spentInPeriod(spending, null)).toBe(4);
  expect(spentInPeriod(spending, 'weekly')).toBe(2);
});
