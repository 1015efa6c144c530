import { expect, test } from 'bun:test';
import { jsonDepthMax, jsonNamesMax } from '../../core/bounds.ts';
import { isObject } from '../../core/json.ts';
import { parseArguments, parseExact } from './exact-json.ts';

const rewritten = (text: string) => JSON.stringify(parseExact(text));

test('parseExact keeps integers of any length', () => {
  const text = '{"seed":12345678901234567890,"list":[-98765432109876543210,1.5,7],"n":null}';
  expect(rewritten(text)).toBe(text);
});

test('parseExact keeps long digits in strings', () => {
  expect(parseExact('{"a":"12345678901234567890","b":1}')).toEqual({
    a: '12345678901234567890',
    b: 1,
  });
});

test('parseExact returns undefined for invalid JSON', () => {
  for (const text of ['', '{', '<html>', '{"a":1}{']) expect(parseExact(text)).toBeUndefined();
});

test('parseExact accepts the maximum depth but nothing deeper', () => {
  const nested = (levels: number) =>
    `${'['.repeat(levels)}"${'x'.repeat(10_000)}"${']'.repeat(levels)}`;
  expect(parseExact(nested(jsonDepthMax))).toBeArray();
  expect(parseExact(nested(jsonDepthMax + 1))).toBeUndefined();
});

test('parseExact does not return long numbers as objects', () => {
  for (const number of ['12345678901234567890', '-0.1234567890123456789']) {
    expect(isObject(parseExact(number))).toBe(false);
    expect(parseExact(`[${number}]`)).not.toSatisfy((list) => [list].flat().some(isObject));
    expect(rewritten(`{"a":[${number}]}`)).toBe(`{"a":[${number}]}`);
  }
});

test('parseExact does not let a long number named toJSON replace its object', () => {
  const text = rewritten('{"id":"a","toJSON":12345678901234567890,"n":12345678901234567891}');
  expect(text).toStartWith('{"id":"a","toJSON":1234567890123456');
  expect(text).toEndWith(',"n":12345678901234567891}');
});

test('parseExact does not parse 10 million brackets', () => {
  const before = process.memoryUsage.rss();
  expect(parseExact('['.repeat(10_000_000))).toBeUndefined();
  expect(parseExact(`{"a":"${'['.repeat(1_000_000)}"}`)).toHaveProperty('a');
  expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024);
});

test('parseArguments limits the number of fields, but parseExact does not', () => {
  const names = (count: number) => `{${'"name":1,'.repeat(count - 1)}"name":1}`;
  expect(parseArguments(names(jsonNamesMax))).toEqual({ name: 1 });
  expect(parseArguments(names(jsonNamesMax + 1))).toBeUndefined();
  expect(parseExact(names(jsonNamesMax + 1))).toEqual({ name: 1 });
  expect(JSON.stringify(parseArguments('{"id":12345678901234567890}'))).toBe(
    '{"id":12345678901234567890}',
  );
});

test('parseExact rejects too many values, nested or not', () => {
  // These counts were computed by hand. Each unit adds its commas and opening brackets.
  const flat = (units: number) => `{"a":[${'[],'.repeat(units)}1]}`;
  const nested = `${'['.repeat(99)}${']'.repeat(99)},`;
  const inside = (units: number) => `{"a":[${nested.repeat(units)}1]}`;
  const text = 'x'.repeat(10_000_000);
  const withText = (units: number) => `["${text}",${flat(units)}]`;
  expect(parseExact(withText(499_997))).toHaveProperty('length', 2);
  expect(parseExact(withText(500_000))).toBeUndefined();
  expect(parseExact(inside(60_000))).toBeUndefined();
  expect(parseExact(`{"a":"${'[],'.repeat(3_000_000)}"}`)).toHaveProperty('a');
});

test('parseExact rejects more values in a short text than in a long one', () => {
  const zeros = `[${'0,'.repeat(900_000)}0]`;
  expect(parseExact(zeros)).toBeUndefined();
  expect(parseExact(`["${'x'.repeat(4_000_000)}",${zeros}]`)).toHaveProperty('length', 2);
});

test('parseExact does not keep long numbers exact among many values', () => {
  const zeros = (count: number) =>
    `[12345678901234567890,"${'x'.repeat(400_000)}"${',0'.repeat(count)}]`;
  expect(JSON.stringify(parseExact(zeros(10)))).toStartWith('[12345678901234567890,');
  expect(JSON.stringify(parseExact(zeros(150_000)))).toStartWith('[12345678901234567000,');
});

test('parseExact parses 5,500 tokens with 20 alternatives each', () => {
  const word = { token: ' the', logprob: -12.345678, bytes: [32, 116, 104, 101] };
  const token = JSON.stringify({ ...word, top_logprobs: Array.from({ length: 20 }, () => word) });
  const tokens = `${token},`.repeat(5_500).slice(0, -1);
  expect(parseExact(`{"content":[${tokens}]}`)).toHaveProperty('content.length', 5_500);
});
