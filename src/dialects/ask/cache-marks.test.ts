import { expect, test } from 'bun:test';
import { question } from '../../../tests/support/question.ts';
import { cacheMark, cacheMarkNames, withLastMarks } from './cache-marks.ts';

test('marks for a cache are found on tools, on parts and on the whole', () => {
  const cacheControl = { type: 'ephemeral' };
  const namesIn = (given: Parameters<typeof question>[0]) => [...cacheMarkNames(question(given))];
  expect(namesIn({})).toEqual([]);
  expect(namesIn({ tools: [{ name: 'a', parameters: null, cacheControl }] })).toEqual([
    'cache_control',
  ]);
  expect(namesIn({ cacheControl })).toEqual(['cache_control']);
  const point = cacheMark({ prompt_cache_breakpoint: { mode: 'explicit' } });
  const parts = [{ kind: 'text' as const, text: 'a', ...point }];
  expect(namesIn({ turns: [{ role: 'user', parts }] })).toEqual(['prompt_cache_breakpoint']);
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
