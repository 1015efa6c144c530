import { expect, test } from 'bun:test';
import { spokenIn, systemOf } from './hoist-system.ts';

const said = { role: 'user' as const, content: 'Hi' };
const blank = { role: 'system' as const, content: ' ' };

test('instructions without words leave none in front', () => {
  const messages = [said, blank];
  const spoken = spokenIn(messages, { system_messages: 'merge' });
  expect(spoken).toEqual([said]);
  expect(systemOf({ messages }, spoken)).toBeUndefined();
  expect(systemOf({ messages, system: '' }, spoken)).toBeUndefined();
});
