import { expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import { mayUseModel } from './caller.ts';

test.each([
  [null, 'acme/chat', true],
  [['*'], 'acme/chat', true],
  [['acme/*'], 'acme/chat', true],
  [['acme/*'], 'other/acme/chat', false],
  [['acme/chat'], 'acme/chat', true],
  [['acme/chat'], 'acme/chat-large', false],
  [['acme/chat'], 'other/acme/chat', false],
  [['other/*', 'acme/chat*'], 'acme/chat-large', true],
])('whether a key for %j may use %s: %p', (models, alias, mayUse) => {
  expect(mayUseModel(callerOf('acme', { models }), alias)).toBe(mayUse);
});
