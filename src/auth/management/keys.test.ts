import { expect, test } from 'bun:test';
import { keysPerTenantMax } from '../../core/bounds.ts';
import type { Tenant } from '../directory.ts';
import { createKey, type KeyService, listKeys, spentInPeriod } from './keys.ts';

const tenant: Tenant = {
  id: 'acme',
  name: 'Acme',
  disabled: false,
  requestsPerMinute: null,
  concurrentRequests: null,
  createdAt: 0,
  updatedAt: 0,
};

/** A directory that only has a tenant with so many keys. */
function serviceOf(keys: number): KeyService {
  const never = () => Promise.reject(new Error('This test does not need it.'));
  const directory: KeyService['directory'] = {
    getTenant: async () => tenant,
    countKeys: async () => keys,
    addKey: async () => 'added',
    getKey: never,
    listKeys: never,
    changeKey: never,
    rotateKey: never,
    deleteKey: never,
  };
  return { directory, spending: { spent: never }, now: () => 0 };
}

test('a tenant holds a bounded number of keys', async () => {
  const body = { name: 'one more' };
  const last = await createKey(serviceOf(keysPerTenantMax - 1), 'acme', body);
  expect(last.key.name).toBe('one more');
  const refused = createKey(serviceOf(keysPerTenantMax), 'acme', body);
  await expect(refused).rejects.toThrow('already has 10000 keys');
});

test('keys are listed only after it is written down which were used lately', async () => {
  const told: string[] = [];
  const service = serviceOf(0);
  const list: KeyService['directory']['listKeys'] = async () => {
    told.push('listed');
    return [];
  };
  const markUsed = async () => {
    await Bun.sleep(0);
    told.push('written down');
  };
  const directory = { ...service.directory, listKeys: list };
  const page = { offset: 0, includeDisabled: true };
  const spending = { spent: async () => new Map() };
  expect(await listKeys({ ...service, directory, spending, markUsed }, 'acme', page)).toEqual([]);
  expect(told).toEqual(['written down', 'listed']);
});

test('a limit without a period counts everything ever spent', () => {
  const spending = { total: 4, daily: 1, weekly: 2, monthly: 3 };
  expect(spentInPeriod(spending, null)).toBe(4);
  expect(spentInPeriod(spending, 'weekly')).toBe(2);
});
