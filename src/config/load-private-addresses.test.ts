import { expect, test } from 'bun:test';
import { everySection, loadConfig } from './load.ts';
import { ConfigProblems } from './problems.ts';

const load = (entries: unknown) =>
  loadConfig({}, {}, everySection, { source: 'test', data: { private_addresses: entries } });

test('private_addresses accepts private host names, addresses, and ranges', () => {
  const entries = ['10.1.0.0/16', '192.168.0.7', 'fd12::/16', '::1', 'hooks.corp.lan', 'queue'];
  expect(load(entries).privateAddresses).toEqual(entries);
  expect(loadConfig({}, {}, everySection, { source: 'test', data: {} }).privateAddresses).toEqual(
    [],
  );
});

test.each([
  '0.0.0.0/0',
  '10.0.0.0/7',
  '8.8.8.8',
  '169.254.169.254',
  '169.254.0.0/16',
  '100.100.100.200',
  'fd00:ec2::254',
  'fe80::1',
  '::/0',
  '10.0.0.0/33',
  '10.0.0.0/-1',
  '10.0.0.0/8/8',
  '10.0.0.300',
  '10.0.0',
  'metadata',
  'metadata.google.internal',
  'instance-data.ec2.internal',
  'http://hooks.corp.lan/',
  'hooks.corp.lan:8080',
  '*.corp.lan',
  '',
])('private_addresses rejects %j and reports its path', (entry) => {
  const problem = `private_addresses[1] must not be "${entry}". Use a full host name without *`;
  const loading = () => load(['10.1.0.0/16', entry]);
  expect(loading).toThrow(ConfigProblems);
  expect(loading).toThrow(problem);
  expect(loading).toThrow('A metadata service is never allowed.');
});
