/** Compares the vocabulary with its source. To fix a failure: `bun deploy/vocabulary.ts`. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decode } from 'gpt-tokenizer/encoding/cl100k_base';
import { vocabularyText } from '../../deploy/vocabulary.ts';

const file = join(import.meta.dir, '../../src/operations/embeddings/cl100k_base.txt');
const text = readFileSync(file, 'utf8');

test('the vocabulary is the one of the locked gpt-tokenizer', () => {
  expect(text === vocabularyText()).toBe(true);
});

test('the line of a token has its bytes', () => {
  const lines = text.split('\n');
  expect(lines).toHaveLength(100_256);
  for (const token of [0, 9906, 1917, 100_255]) {
    expect(Buffer.from(lines[token] ?? '', 'base64').toString()).toBe(decode([token]));
  }
});
