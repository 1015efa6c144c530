import { describe, expect, test } from 'bun:test';
import { geminiEmbeddings } from './embeddings.ts';

const read = (usageMetadata: unknown) =>
  geminiEmbeddings.read(JSON.stringify({ embeddings: [{ values: [0.25, -1] }], usageMetadata }));

describe('a batch of embeddings', () => {
  test('costs what a model that counts has counted', () => {
    const promptTokenDetails = [{ modality: 'TEXT', tokenCount: 7 }];
    expect(read({ promptTokenCount: 7, promptTokenDetails })).toEqual({
      vectors: [[0.25, -1]],
      promptTokens: 7,
    });
  });

  test.each([undefined, null, {}, { promptTokenCount: 0 }, { promptTokenCount: -1 }, 'x'])(
    'is not counted by %p',
    (usage) => expect(read(usage)).toMatchObject({ promptTokens: null }),
  );
});

test.each([
  ['nothing', {}, { kind: 'malformed' }],
  ['an error', { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, { kind: 'rate_limited' }],
  ['a vector of nothing', { embeddings: [{ values: [1] }, {}] }, { kind: 'malformed' }],
  ['one that is empty', { embeddings: [{ values: [] }] }, { kind: 'malformed' }],
])('an answer with %s is a failure', (_, answer, failure) => {
  expect(geminiEmbeddings.read(JSON.stringify(answer))).toMatchObject(failure);
});
