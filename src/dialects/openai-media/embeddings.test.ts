import { expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import { openAiEmbeddings } from './embeddings.ts';

const read = (data: unknown, more: object = {}) =>
  openAiEmbeddings.readBatch(JSON.stringify({ object: 'list', data, ...more }));

test('vectors stand where their index says', () => {
  const data = [
    { index: 1, embedding: [2] },
    { index: 0, embedding: [1] },
  ];
  const usage = { prompt_tokens: 5, total_tokens: 5 };
  expect(valueIn(read(data, { usage }))).toEqual({ vectors: [[1], [2]], promptTokens: 5 });
});

test.each([
  ['an item that is none', [{ index: 0, embedding: [1] }, null]],
  [
    'two for one place',
    [
      { index: 0, embedding: [1] },
      { index: 0, embedding: [2] },
    ],
  ],
  ['a place beyond the last', [{ index: 1, embedding: [1] }]],
  ['a place before the first', [{ index: -1, embedding: [1] }]],
  ['no numbers', [{ index: 0, embedding: [] }]],
])('an answer with %s is malformed', (_, data) => {
  expect(failureIn(read(data))).toMatchObject({ kind: 'malformed' });
});
