import { expect, test } from 'bun:test';
import { format, inspect } from 'node:util';
import { Secret } from './secret.ts';

const value = 'sk-live-0123456789abcdef';
const secret = new Secret(value);

test('Secret.reveal returns the value', () => {
  expect(secret.reveal()).toBe(value);
});

test.each([
  ['a template', () => `${secret}`],
  ['a joined list', () => ['key', secret].join(' ')],
  ['JSON', () => JSON.stringify({ secret, list: [secret] })],
  ['a debugger', () => inspect({ deep: { secret } }, { depth: 9, showHidden: true })],
  ['a format', () => format('%s %o %j', secret, secret, secret)],
  ['Bun.inspect', () => Bun.inspect({ secret })],
  ['an error', () => String(new Error(`${secret}`, { cause: secret }))],
  ['its fields', () => JSON.stringify([Object.entries(secret), { ...secret }])],
])('Secret hides its value in %s', (_, print) => {
  expect(print()).not.toContain(value.slice(0, -4));
});

test('Secret shows its last 4 characters', () => {
  expect(String(secret)).toBe('•••cdef');
});

test('Secret hides all of a short value', () => {
  expect(String(new Secret('hunter2'))).toBe('•••');
});
