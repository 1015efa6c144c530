import { describe, expect, test } from 'bun:test';
import type { ValidationIssue } from '../core/schema.ts';
import { everySection, loadConfig } from './load.ts';
import { ConfigProblems } from './problems.ts';
import { readBootstrap, readSecretKey } from './settings.ts';

const variables = [
  ['TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-', 'apiKey'],
  ['TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-mgmt-', 'managementKey'],
  ['TOLLGATE_ADMIN_TOKEN', 'sk-admin-', 'adminToken'],
] as const;

describe.each(variables)('%s', (name, prefix, field) => {
  function read(key: string) {
    const problems: ValidationIssue[] = [];
    const bootstrap = readBootstrap({ [name]: key }, problems);
    return { key: bootstrap[field]?.reveal() ?? null, wrong: problems.map(({ path }) => path) };
  }

  test('accepts a key with its prefix and 32 characters', () => {
    const key = prefix.padEnd(32, 'x');
    expect(read(key)).toEqual({ key, wrong: [] });
  });

  test.each([
    ['31 characters', prefix.padEnd(31, 'x')],
    ['another prefix', 'sk-other-'.padEnd(60, 'x')],
    ['no prefix', 'x'.repeat(60)],
    ['a space inside', `${prefix.padEnd(40, 'x')} x`],
    ['a letter that no header carries', `${prefix.padEnd(40, 'x')}é`],
  ])('rejects a key with %s', (_, key) => {
    expect(read(key)).toEqual({ key: null, wrong: [name] });
  });
});

test('TOLLGATE_BOOTSTRAP_CREDITS accepts whole numbers, including 0', () => {
  const read = (text: string) => {
    const problems: ValidationIssue[] = [];
    const { credits } = readBootstrap({ TOLLGATE_BOOTSTRAP_CREDITS: text }, problems);
    return problems.length > 0 ? 'refused' : credits;
  };
  expect(['0', '25', '', '9007199254740991'].map(read)).toEqual([0, 25, 10_000_000, 2 ** 53 - 1]);
  for (const text of ['-1', '1.5', '1e3', '9007199254740992']) expect(read(text)).toBe('refused');
});

test('a secret key needs at least 32 characters', () => {
  const problems: ValidationIssue[] = [];
  expect(
    readSecretKey('TOLLGATE_SECRET_KEY', { TOLLGATE_SECRET_KEY: 'x'.repeat(32) }, problems),
  ).not.toBeNull();
  expect(problems).toEqual([]);
  expect(
    readSecretKey('TOLLGATE_SECRET_KEY', { TOLLGATE_SECRET_KEY: 'x'.repeat(31) }, problems),
  ).toBeNull();
  expect(problems).toHaveLength(1);
});

const load = (entries: unknown) =>
  loadConfig({}, {}, everySection, { source: 'test', data: { private_addresses: entries } });

test('private_addresses accepts private host names, addresses and ranges', () => {
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
])('private_addresses rejects «%s» with its path', (entry) => {
  const problem =
    'private_addresses[1] must be a full host name without * and port, or an address or range';
  const refusal = () => load(['10.1.0.0/16', entry]);
  expect(refusal).toThrow(ConfigProblems);
  expect(refusal).toThrow(problem);
  expect(refusal).toThrow(`not "${entry}"`);
});
