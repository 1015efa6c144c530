import { expect, test } from 'bun:test';
import { jsonDepthMax, jsonNamesMax } from '../../core/bounds.ts';
import { isObject } from '../../core/json.ts';
import { parseArguments, parseExact } from './exact-json.ts';

const rewritten = (text: string) => JSON.stringify(parseExact(text));

test('integers of any length are written back as they came', () => {
  const text = '{"seed":12345678901234567890,"list":[-98765432109876543210,1.5,7],"n":null}';
  expect(rewritten(text)).toBe(text);
});

test('long digits inside a text stay a text', () => {
  expect(parseExact('{"a":"12345678901234567890","b":1}')).toEqual({
    a: '12345678901234567890',
    b: 1,
  });
});

test('what is no JSON is undefined', () => {
  for (const text of ['', '{', '<html>', '{"a":1}{']) expect(parseExact(text)).toBeUndefined();
});

test('a long text may nest as deep as allowed, and no deeper', () => {
  const nested = (levels: number) =>
    `${'['.repeat(levels)}"${'x'.repeat(10_000)}"${']'.repeat(levels)}`;
  expect(parseExact(nested(jsonDepthMax))).toBeArray();
  expect(parseExact(nested(jsonDepthMax + 1))).toBeUndefined();
});

test('a long number is no object that anybody could try to mend', () => {
  for (const number of ['12345678901234567890', '-0.1234567890123456789']) {
    expect(isObject(parseExact(number))).toBe(false);
    expect(parseExact(`[${number}]`)).not.toSatisfy((list) => [list].flat().some(isObject));
    expect(rewritten(`{"a":[${number}]}`)).toBe(`{"a":[${number}]}`);
  }
});

test('a long number called toJSON does not speak for the object that it stands in', () => {
  const text = rewritten('{"id":"a","toJSON":12345678901234567890,"n":12345678901234567891}');
  expect(text).toStartWith('{"id":"a","toJSON":1234567890123456');
  expect(text).toEndWith(',"n":12345678901234567891}');
});

test('ten million brackets are not parsed', () => {
  const before = process.memoryUsage.rss();
  expect(parseExact('['.repeat(10_000_000))).toBeUndefined();
  expect(parseExact(`{"a":"${'['.repeat(1_000_000)}"}`)).toHaveProperty('a');
  expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
});

test('arguments of a call have as many names as a request may, answers any number', () => {
  const names = (count: number) => `{${'"name":1,'.repeat(count - 1)}"name":1}`;
  expect(parseArguments(names(jsonNamesMax))).toEqual({ name: 1 });
  expect(parseArguments(names(jsonNamesMax + 1))).toBeUndefined();
  expect(parseExact(names(jsonNamesMax + 1))).toEqual({ name: 1 });
  expect(JSON.stringify(parseArguments('{"id":12345678901234567890}'))).toBe(
    '{"id":12345678901234567890}',
  );
});

test('an answer of too many values is not parsed: lists in lists count like those in a row', () => {
  // By hand: each unit has its commas and its opening brackets.
  const beside = (units: number) => `{"a":[${'[],'.repeat(units)}1]}`;
  const nested = `${'['.repeat(99)}${']'.repeat(99)},`;
  const inside = (units: number) => `{"a":[${nested.repeat(units)}1]}`;
  expect(parseExact(beside(2_999_999))).toHaveProperty('a');
  expect(parseExact(beside(3_000_000))).toBeUndefined();
  expect(parseExact(inside(60_000))).toBeUndefined();
  expect(parseExact(`{"a":"${'[],'.repeat(3_000_000)}"}`)).toHaveProperty('a');
});

test('an answer of 32,768 tokens is parsed with the twenty likeliest for each', () => {
  const word = { token: ' the', logprob: -12.345678, bytes: [32, 116, 104, 101] };
  const token = JSON.stringify({ ...word, top_logprobs: Array.from({ length: 20 }, () => word) });
  const tokens = `${token},`.repeat(32_768).slice(0, -1);
  expect(parseExact(`{"content":[${tokens}]}`)).toHaveProperty('content.length', 32_768);
});
