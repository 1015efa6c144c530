import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import { cohereEmbeddings } from './embeddings.ts';

const wish = {
  ...{ inputs: ['a', 'b'], isList: true, encoding: 'float' as const },
  ...{ dimensions: null, user: 'u', more: { truncate: 'END' } },
};
const read = (answer: object) => cohereEmbeddings.readBatch(JSON.stringify(answer));
const embeddings = { float: [[0.25, -1]] };

test('a batch has the purpose that Cohere must be told, and 96 texts at most', () => {
  const { path, body, dropped } = cohereEmbeddings.write(wish, { upstreamModel: 'm', quirks: {} });
  expect([path, dropped, cohereEmbeddings.batchMax(wish)]).toEqual([
    '/embed',
    ['truncate', 'user'],
    96,
  ]);
  expect(JSON.parse(String(body))).toEqual({
    ...{ model: 'm', input_type: 'search_document', embedding_types: ['float'] },
    texts: ['a', 'b'],
  });
});

describe('an answer', () => {
  test('costs what was billed', () => {
    const meta = { api_version: { version: '2' }, billed_units: { input_tokens: 7 } };
    expect(valueIn(read({ embeddings, meta }))).toEqual({ vectors: [[0.25, -1]], promptTokens: 7 });
  });

  test.each([{}, { meta: null }, { meta: {} }, { meta: { billed_units: null } }])(
    'has no token count where it has %j',
    (counted) => {
      expect(valueIn(read({ embeddings, ...counted }))).toEqual({
        vectors: [[0.25, -1]],
        promptTokens: null,
      });
    },
  );

  test.each([
    [{}, 'malformed'],
    [{ embeddings: { float: [[]] } }, 'malformed'],
    [{ error: { type: 'rate_limit_error', message: 'Slow down.' } }, 'rate_limited'],
  ])('of %j is a failure', (answer, kind) =>
    expect(failureIn(read(answer))).toMatchObject({ kind }),
  );
});
