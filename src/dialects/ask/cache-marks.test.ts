import { expect, test } from 'bun:test';
import { question } from '../../../tests/support/question.ts';
import { hasCacheMarks } from './cache-marks.ts';

test('marks for a cache are found on tools, on parts and on the whole', () => {
  const cacheControl = { type: 'ephemeral' };
  expect(hasCacheMarks(question())).toBe(false);
  expect(hasCacheMarks(question({ tools: [{ name: 'a', parameters: null, cacheControl }] }))).toBe(
    true,
  );
  expect(hasCacheMarks(question({ cacheControl }))).toBe(true);
  const parts = [{ kind: 'text' as const, text: 'a', cacheControl }];
  expect(hasCacheMarks(question({ turns: [{ role: 'user', parts }] }))).toBe(true);
});
