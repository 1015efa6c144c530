import { expect, test } from 'bun:test';
import { leaveOutLookalikes } from './unknown-fields.ts';

test('names that some servers read as one of ours are left out, others are not', () => {
  const body = { model: 1, Model: 2, MAX_TOKENS: 3, Max_To\u212aens: 4, me\u017f\u017fages: 5 };
  const known = { model: 0, max_tokens: 0, messages: 0 };
  const edits: Record<string, unknown> = {};
  leaveOutLookalikes({ ...body, modelName: 6, 'x-model': 7, é: 8, toString: 9 }, known, edits);
  expect(Object.keys(edits)).toEqual([
    'Model',
    'MAX_TOKENS',
    'Max_To\u212aens',
    'me\u017f\u017fages',
  ]);
});
