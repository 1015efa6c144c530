import { describe, expect, test } from 'bun:test';
import type { Problem } from '../core/explain.ts';
import { readBootstrap, readSecretKey } from './bootstrap.ts';

const variables = [
  ['TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-', 'apiKey'],
  ['TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-mgmt-', 'managementKey'],
  ['TOLLGATE_ADMIN_TOKEN', 'sk-admin-', 'adminToken'],
] as const;

describe.each(variables)('%s', (name, prefix, field) => {
  function read(key: string) {
    const problems: Problem[] = [];
    const bootstrap = readBootstrap({ [name]: key }, problems);
    return { key: bootstrap[field]?.reveal() ?? null, wrong: problems.map(({ path }) => path) };
  }

  test('is taken with its prefix and 32 characters', () => {
    const key = prefix.padEnd(32, 'x');
    expect(read(key)).toEqual({ key, wrong: [] });
  });

  test.each([
    ['31 characters', prefix.padEnd(31, 'x')],
    ['another prefix', 'sk-other-'.padEnd(60, 'x')],
    ['no prefix', 'x'.repeat(60)],
    ['a space inside', `${prefix.padEnd(40, 'x')} x`],
    ['a letter that no header carries', `${prefix.padEnd(40, 'x')}é`],
  ])('is refused with %s', (_, key) => {
    expect(read(key)).toEqual({ key: null, wrong: [name] });
  });
});

test('the credits of the first start are a whole number, none at all included', () => {
  const read = (text: string) => {
    const problems: Problem[] = [];
    const { credits } = readBootstrap({ TOLLGATE_BOOTSTRAP_CREDITS: text }, problems);
    return problems.length > 0 ? 'refused' : credits;
  };
  expect(['0', '25', '', '9007199254740991'].map(read)).toEqual([0, 25, 10_000_000, 2 ** 53 - 1]);
  for (const text of ['-1', '1.5', '1e3', '9007199254740992']) expect(read(text)).toBe('refused');
});

test('a secret key has 32 characters or more', () => {
  const problems: Problem[] = [];
  expect(
    readSecretKey('TOLLGATE_SECRET_KEY', { TOLLGATE_SECRET_KEY: 'x'.repeat(32) }, problems),
  ).not.toBeNull();
  expect(problems).toEqual([]);
  expect(
    readSecretKey('TOLLGATE_SECRET_KEY', { TOLLGATE_SECRET_KEY: 'x'.repeat(31) }, problems),
  ).toBeNull();
  expect(problems).toHaveLength(1);
});
