import { expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { limitPeriod, mayUseModel } from './caller.ts';

test.each([
  [null, 'acme/chat', true],
  [['*'], 'acme/chat', true],
  [['acme/*'], 'acme/chat', true],
  [['acme/*'], 'other/acme/chat', false],
  [['acme/chat'], 'acme/chat', true],
  [['acme/chat'], 'acme/chat-large', false],
  [['acme/chat'], 'other/acme/chat', false],
  [['chat'], 'acme/chat', true],
  [['chat'], 'acme/chat-large', false],
  [['chat'], 'chat', true],
  [['other/*', 'acme/chat*'], 'acme/chat-large', true],
])('mayUseModel with allow-list %j, given %s, returns %p', (models, alias, mayUse) => {
  expect(mayUseModel(callerOf('acme', { models }), alias)).toBe(mayUse);
});

test.each([
  ['daily', '2026-11-15T00:00', '2026-11-15T00:00', '2026-11-16T00:00'],
  ['daily', '2026-11-30T23:59:59.999', '2026-11-30T00:00', '2026-12-01T00:00'],
  ['daily', '2032-02-29T23:59:59.999', '2032-02-29T00:00', '2032-03-01T00:00'],
  ['daily', '2032-03-01T00:00', '2032-03-01T00:00', '2032-03-02T00:00'],
  ['weekly', '2026-11-15T23:59:59.999', '2026-11-09T00:00', '2026-11-16T00:00'],
  ['weekly', '2026-11-16T00:00', '2026-11-16T00:00', '2026-11-23T00:00'],
  ['weekly', '2026-12-30T08:00', '2026-12-28T00:00', '2027-01-04T00:00'],
  // February 29, 2032 is a Sunday.
  ['weekly', '2032-02-29T23:59:59.999', '2032-02-23T00:00', '2032-03-01T00:00'],
  ['weekly', '2032-03-01T00:00', '2032-03-01T00:00', '2032-03-08T00:00'],
  ['weekly', '2033-01-01T12:00', '2032-12-27T00:00', '2033-01-03T00:00'],
  ['monthly', '2026-12-31T23:59:59.999', '2026-12-01T00:00', '2027-01-01T00:00'],
  ['monthly', '2032-02-29T23:59:59.999', '2032-02-01T00:00', '2032-03-01T00:00'],
] as const)('limitPeriod of a %s limit at %s is from %s until %s', (reset, now, from, until) => {
  const at = (text: string) => Date.parse(`${text}Z`);
  expect(limitPeriod(reset, at(now))).toEqual({ from: at(from), until: at(until) });
});
