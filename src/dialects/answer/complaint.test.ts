import { expect, test } from 'bun:test';
import { readComplaint } from './complaint.ts';

test.each<[readonly unknown[], string]>([
  [['body', 'messages', 0, 'content'], 'messages[0].content: Field required'],
  [['query'], 'query: Field required'],
  [['body', { toString: 1 }], 'Field required'],
  [['body', ['messages']], 'Field required'],
])('a place of %j is told if it is one', (loc, message) => {
  expect(readComplaint({ detail: [{ loc, msg: 'Field required' }] }).message).toBe(message);
});
