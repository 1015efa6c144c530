import { expect, test } from 'bun:test';
import { Wildcards } from './wildcards.ts';

const named = (...names: string[]) => new Wildcards(names.map((name) => [name, name] as const));

test.each([
  ['openai/gpt-5', 'openai/gpt-*', '5'],
  ['openai/gpt-', 'openai/gpt-*', ''],
  ['openai/o3', 'openai/*', 'o3'],
  ['openai/', 'openai/*', ''],
  ['a.b+c(d', 'a.b+*', 'c(d'],
  ['a.b+', 'a.b+*', ''],
  ['\u{1F600}x', '\u{1F600}*', 'x'],
])('Wildcards finds the longest prefix of %s', (name, value, rest) => {
  const wildcards = named('openai/*', 'openai/gpt-*', 'a.b+*', '\u{1F600}*', 'openai/o3');
  expect(wildcards.find(name)).toEqual({ value, rest });
});

test.each(['', 'openai', 'azb+c', 'x'])('Wildcards finds nothing for "%s"', (name) => {
  expect(named('openai/*', 'a.b+*', 'exact').find(name)).toBeUndefined();
});
