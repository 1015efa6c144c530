import { expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import { openAiEmbeddings } from './embeddings.ts';

const read = (data: unknown, extraFields: object = {}) =>
  openAiEmbeddings.readBatch(JSON.stringify({ object: 'list', data, ...extraFields }));

test('openAiEmbeddings orders vectors by index', () => {
  const data = [
    { index: 1, embedding: [2] },
    { index: 0, embedding: [1] },
  ];
  const usage = { prompt_tokens: 5, total_tokens: 5 };
  expect(valueIn(read(data, { usage }))).toEqual({ vectors: [[1], [2]], promptTokens: 5 });
});

test.each([
  ['an item that is not an object', [{ index: 0, embedding: [1] }, null]],
  [
    'a duplicate index',
    [
      { index: 0, embedding: [1] },
      { index: 0, embedding: [2] },
    ],
  ],
  ['an index beyond the last', [{ index: 1, embedding: [1] }]],
  ['a negative index', [{ index: -1, embedding: [1] }]],
  ['an empty vector', [{ index: 0, embedding: [] }]],
])('openAiEmbeddings rejects an answer with %s', (_, data) => {
  expect(failureIn(read(data))).toMatchObject({ kind: 'malformed' });
});
