import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import { cohereEmbeddings } from './embeddings.ts';

const options = {
  ...{ inputs: ['a', 'b'], isList: true, encoding: 'float' as const },
  ...{ dimensions: null, user: 'u', extraFields: { truncate: 'END' } },
};
const read = (answer: object) => cohereEmbeddings.readBatch(JSON.stringify(answer));
const embeddings = { float: [[0.25, -1]] };

test('cohereEmbeddings sends the purpose and at most 96 texts', () => {
  const { path, body, dropped } = cohereEmbeddings.write(options, {
    upstreamModel: 'm',
    quirks: {},
  });
  expect([path, dropped, cohereEmbeddings.batchMax(options)]).toEqual([
    '/embed',
    ['truncate', 'user'],
    96,
  ]);
  expect(JSON.parse(String(body))).toEqual({
    ...{ model: 'm', input_type: 'search_document', embedding_types: ['float'] },
    texts: ['a', 'b'],
  });
});

describe('cohereEmbeddings.readBatch', () => {
  test('returns the billed tokens', () => {
    const meta = { api_version: { version: '2' }, billed_units: { input_tokens: 7 } };
    expect(valueIn(read({ embeddings, meta }))).toEqual({ vectors: [[0.25, -1]], promptTokens: 7 });
  });

  test.each([{}, { meta: null }, { meta: {} }, { meta: { billed_units: null } }])(
    'returns no token count for %j',
    (counts) => {
      expect(valueIn(read({ embeddings, ...counts }))).toEqual({
        vectors: [[0.25, -1]],
        promptTokens: null,
      });
    },
  );

  test.each([
    [{}, 'malformed'],
    [{ embeddings: { float: [[]] } }, 'malformed'],
    [{ error: { type: 'rate_limit_error', message: 'Slow down.' } }, 'rate_limited'],
  ])('returns a failure for %j', (answer, kind) =>
    expect(failureIn(read(answer))).toMatchObject({ kind }),
  );
});
