import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { estimateTokens } from './token-estimate.ts';

const file = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

const samples: Readonly<Record<string, string>> = {
  prose: file('ARCHITECTURE.md'),
  code: file('src/gateway.ts'),
  JSON: file('package.json'),
  German: 'Die Würde des Menschen ist unantastbar. Sie zu achten ist Verpflichtung. '.repeat(9),
  Chinese: '人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。'.repeat(9),
  Japanese: 'すべての人間は、生まれながらにして自由であり、かつ、平等である。'.repeat(9),
  Korean: '모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. '.repeat(9),
  Russian: 'Все люди рождаются свободными и равными в своем достоинстве и правах. '.repeat(9),
  Arabic: 'يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. '.repeat(9),
};

test.each(Object.entries(samples))('estimateTokens is within 25%% of o200k for %s', (_, text) => {
  const counted = countTokens(text);
  expect(counted).toBeGreaterThan(50);
  expect(estimateTokens(text) / counted).toBeWithin(0.75, 1.25);
});

test('estimateTokens returns 0 for an empty string and 1 for a letter', () => {
  expect([estimateTokens(''), estimateTokens('a')]).toEqual([0, 1]);
});
