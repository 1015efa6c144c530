import { expect, test } from 'bun:test';
import { question } from '../../../tests/support/question.ts';
import { hasCacheMarks, withLastMarks } from './cache-marks.ts';

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

test('of more than four marks the last stay, and of four all', () => {
  const cacheControl = { type: 'ephemeral' };
  const tools = [{ name: 'a', parameters: null, cacheControl }];
  const said = (text: string) => ({ kind: 'text' as const, text, cacheControl });
  const asked = (...texts: string[]) =>
    question({ tools, turns: [{ role: 'user', parts: texts.map(said) }] });
  const four = asked('a', 'b', 'c');
  expect(withLastMarks(four)).toBe(four);
  const { tools: kept, turns } = withLastMarks({ ...asked('a', 'b', 'c', 'd'), cacheControl });
  expect(kept[0]?.cacheControl).toBeUndefined();
  expect(turns[0]?.parts).toEqual([
    { kind: 'text', text: 'a', cacheControl: undefined },
    ...['b', 'c', 'd'].map(said),
  ]);
});
