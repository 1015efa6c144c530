import { expect, test } from 'bun:test';
import { format, inspect } from 'node:util';
import { Secret } from './secret.ts';

const value = 'sk-live-0123456789abcdef';
const secret = new Secret(value);

test('reveal() is the way to the value', () => {
  expect(secret.reveal()).toBe(value);
});

test.each([
  ['a template', () => `${secret}`],
  ['a joined list', () => ['key', secret].join(' ')],
  ['JSON', () => JSON.stringify({ secret, list: [secret] })],
  ['a debugger', () => inspect({ deep: { secret } }, { depth: 9, showHidden: true })],
  ['a format', () => format('%s %o %j', secret, secret, secret)],
  ['Bun’s inspector', () => Bun.inspect({ secret })],
  ['an error', () => String(new Error(`${secret}`, { cause: secret }))],
  ['its fields', () => JSON.stringify([Object.entries(secret), { ...secret }])],
])('%s never shows it', (_, print) => {
  expect(print()).not.toContain(value.slice(0, -4));
});

test('people can tell two apart by how they end', () => {
  expect(String(secret)).toBe('•••cdef');
});

test('a short one shows nothing at all', () => {
  expect(String(new Secret('hunter2'))).toBe('•••');
});
