import { expect, test } from 'bun:test';
import { countCharacters } from './characters.ts';

test.each([
  ['', 0],
  ['Grüße', 5],
  ['a😀b', 3],
  ['\u{10000}\u{10ffff}', 2],
  ['\ue000\ud7ff', 2],
  ['\udc00', 1],
  ['a\udfff', 2],
  ['\ud83d\ude00\ude00', 2],
  ['\ud83d\ud83d\ude00', 2],
  ['\ud800\ud7ff', 2],
  ['\ud800\ue000', 2],
  ['\ue000\udc00', 2],
  ['\ud7ff\udc00', 2],
])('the characters of %j are %i', (text, count) => expect(countCharacters(text)).toBe(count));
