import { expect, test } from 'bun:test';
import { readComplaint } from './complaint.ts';

test.each<[readonly unknown[], string]>([
  [['body', 'messages', 0, 'content'], 'messages[0].content: Field required'],
  [['query'], 'query: Field required'],
  [['body', { toString: 1 }], 'Field required'],
  [['body', ['messages']], 'Field required'],
])('the place %j is told only if it can be one', (loc, message) => {
  expect(readComplaint({ detail: [{ loc, msg: 'Field required' }] }).message).toBe(message);
});
