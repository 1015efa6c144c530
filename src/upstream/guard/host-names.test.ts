import { afterEach, describe, expect, test } from 'bun:test';
import { writeFile } from 'node:fs/promises';
import { devNull } from 'node:os';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { type NameServer, startNameServer } from '../../../tests/support/name-server.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { HostNames, NameServerTimeout } from './host-names.ts';

let server: NameServer | undefined;
afterEach(() => server?.stop());

/** Starts lookups of names that no server knows, and returns their number of outcomes so far. */
function lookUpSilent(hostNames: HostNames, count: number, tenantId: string) {
  const failures: unknown[] = [];
  for (let index = 0; index < count; index += 1) {
    const name = `${tenantId}-${index}.silent.test`;
    hostNames.resolve(name, tenantId).catch((error: unknown) => failures.push(error));
  }
  return failures;
}

describe('HostNames', () => {
  test('resolves names with the name server and the hosts file', async () => {
    server = await startNameServer({ 'images.test': '192.0.2.7' });
    const hostNames = new HostNames();
    expect(await hostNames.resolve('images.test', 'acme')).toEqual(['192.0.2.7']);
    expect(await hostNames.resolve('localhost', 'acme')).toContain('127.0.0.1');
    expect(server.queries).not.toContain('localhost');
  });

  test('does not delay file writes while a name server is silent', async () => {
    server = await startNameServer({});
    const failures = lookUpSilent(new HostNames(), 50, 'acme');
    await writeFile(devNull, 'a');
    expect(failures).toEqual([]);
  });

  test('asks a silent name server once for a name that several requests need', async () => {
    server = await startNameServer({});
    const hostNames = new HostNames(50);
    const [first, second] = await Promise.all([
      failureOf(hostNames.resolve('silent.test', 'acme')),
      failureOf(hostNames.resolve('silent.test', 'other')),
    ]);
    expect(first).toBeInstanceOf(NameServerTimeout);
    expect(second).toBe(first);
    // The failure is repeated for a while, without a lookup.
    expect(await failureOf(hostNames.resolve('silent.test', 'acme'))).toBe(first);
    expect(server.queries.filter((name) => name === 'silent.test')).toHaveLength(2);
  });

  test('rejects the 65th concurrent lookup of a tenant but none of another tenant', async () => {
    server = await startNameServer({ 'images.test': '192.0.2.7' });
    const hostNames = new HostNames(1_000);
    const failures = lookUpSilent(hostNames, 64, 'acme');
    expect(() => hostNames.resolve('images.test', 'acme')).toThrow(
      'The gateway is resolving too many host names. Try again shortly.',
    );
    expect(await hostNames.resolve('images.test', 'other')).toEqual(['192.0.2.7']);
    await waitUntil(() => failures.length >= 64);
    // c-ares still waits for responses, so the lookups of the tenant still count.
    expect(() => hostNames.resolve('images.test', 'acme')).toThrow('too many host names');
  });
});
