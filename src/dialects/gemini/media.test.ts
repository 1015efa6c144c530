import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import type { ImageOptions } from '../media.ts';
import { geminiEmbeddings, geminiImages } from './media.ts';

const read = (usageMetadata: unknown) =>
  geminiEmbeddings.readBatch(
    JSON.stringify({ embeddings: [{ values: [0.25, -1] }], usageMetadata }),
  );

describe('a batch of embeddings', () => {
  test('costs what a model that counts has counted', () => {
    const promptTokenDetails = [{ modality: 'TEXT', tokenCount: 7 }];
    expect(valueIn(read({ promptTokenCount: 7, promptTokenDetails }))).toEqual({
      vectors: [[0.25, -1]],
      promptTokens: 7,
    });
  });

  test.each([undefined, null, {}, { promptTokenCount: 0 }, { promptTokenCount: -1 }, 'x'])(
    'is not counted by %p',
    (usage) => expect(valueIn(read(usage))).toMatchObject({ promptTokens: null }),
  );
});

test.each([
  ['nothing', {}, { kind: 'malformed' }],
  ['an error', { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, { kind: 'rate_limited' }],
  ['a vector of nothing', { embeddings: [{ values: [1] }, {}] }, { kind: 'malformed' }],
  ['one that is empty', { embeddings: [{ values: [] }] }, { kind: 'malformed' }],
])('an answer with %s is a failure', (_, answer, failure) => {
  expect(failureIn(geminiEmbeddings.readBatch(JSON.stringify(answer)))).toMatchObject(failure);
});

const noParameters = {
  ...{ size: null, quality: null, background: null },
  ...{ output_format: null, user: null },
};

function shapeOf(size: string): unknown {
  const parameters = { ...noParameters, size };
  const wish: ImageOptions = { prompt: 'A cat', images: [], mask: null, parameters, more: {} };
  const { body } = geminiImages.write(wish, { upstreamModel: 'm', quirks: {} });
  return JSON.parse(String(body)).generationConfig.imageConfig;
}

describe('a size in pixels is', () => {
  test.each([
    ['1024x1024', { aspectRatio: '1:1' }],
    ['1024x1536', { aspectRatio: '2:3' }],
    ['1536x1024', { aspectRatio: '3:2' }],
    ['768x1024', { aspectRatio: '3:4' }],
    ['1024x768', { aspectRatio: '4:3' }],
    ['1024x1280', { aspectRatio: '4:5' }],
    ['1280x1024', { aspectRatio: '5:4' }],
    ['720x1280', { aspectRatio: '9:16' }],
    ['1280x720', { aspectRatio: '16:9' }],
    ['1500x500', { aspectRatio: '21:9' }],
    ['1537x1537', { aspectRatio: '1:1', imageSize: '2K' }],
    ['2304x2304', { aspectRatio: '1:1', imageSize: '2K' }],
    ['3840x2160', { aspectRatio: '16:9', imageSize: '4K' }],
  ])('%s the nearest shape', (size, shape) => expect(shapeOf(size)).toEqual(shape));
});

describe('an answer', () => {
  const read = (answer: object) => geminiImages.readGeneratedImages(JSON.stringify(answer));
  const drawn = (more: object) => ({
    inlineData: { mimeType: 'image/png', data: 'iVBO' },
    ...more,
  });

  test('is its pictures, without drafts, words and sounds', () => {
    const sound = { inlineData: { mimeType: 'audio/wav', data: 'UklG' } };
    const parts = [{ text: 'Here.' }, drawn({ thought: true }), sound, drawn({})];
    expect(
      valueIn(read({ candidates: [{ content: { parts }, finishReason: 'STOP' }] })),
    ).toMatchObject({
      images: [{ base64: 'iVBO', url: null }],
    });
  });

  test.each([
    [{ error: { code: 503, status: 'UNAVAILABLE', message: 'Busy.' } }, 'overloaded'],
    [{ candidates: [{ finishReason: 'IMAGE_SAFETY' }] }, 'request'],
    [{ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } }, 'request'],
    [
      { candidates: [{ content: { parts: [{ text: 'A cat?' }] }, finishReason: 'STOP' }] },
      'malformed',
    ],
    [{}, 'malformed'],
  ])('of %j is none: %s', (answer, kind) =>
    expect(failureIn(read(answer))).toMatchObject({ kind }),
  );
});
