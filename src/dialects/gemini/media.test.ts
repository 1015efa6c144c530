import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../tests/support/read-result.ts';
import type { ImageOptions } from '../media.ts';
import { geminiEmbeddings, geminiImages } from './media.ts';

const read = (usageMetadata: unknown) =>
  geminiEmbeddings.readBatch(
    JSON.stringify({ embeddings: [{ values: [0.25, -1] }], usageMetadata }),
  );

describe('geminiEmbeddings.readBatch', () => {
  test('returns the reported token count', () => {
    const promptTokenDetails = [{ modality: 'TEXT', tokenCount: 7 }];
    expect(valueIn(read({ promptTokenCount: 7, promptTokenDetails }))).toEqual({
      vectors: [[0.25, -1]],
      promptTokens: 7,
    });
  });

  test.each([undefined, null, {}, { promptTokenCount: 0 }, { promptTokenCount: -1 }, 'x'])(
    'returns no token count for %p',
    (usage) => expect(valueIn(read(usage))).toMatchObject({ promptTokens: null }),
  );
});

test.each([
  ['no fields', {}, { kind: 'malformed' }],
  ['an error', { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, { kind: 'rate_limited' }],
  ['a missing vector', { embeddings: [{ values: [1] }, {}] }, { kind: 'malformed' }],
  ['an empty vector', { embeddings: [{ values: [] }] }, { kind: 'malformed' }],
])('geminiEmbeddings returns a failure for an answer with %s', (_, answer, failure) => {
  expect(failureIn(geminiEmbeddings.readBatch(JSON.stringify(answer)))).toMatchObject(failure);
});

const noParameters = {
  ...{ size: null, quality: null, background: null },
  ...{ output_format: null, user: null },
};

function shapeOf(size: string): unknown {
  const parameters = { ...noParameters, size };
  const options: ImageOptions = {
    prompt: 'A cat',
    images: [],
    mask: null,
    parameters,
    extraFields: {},
  };
  const { body } = geminiImages.write(options, { upstreamModel: 'm', quirks: {} });
  return JSON.parse(String(body)).generationConfig.imageConfig;
}

describe('geminiImages converts the size', () => {
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
  ])('%s to %j', (size, shape) => expect(shapeOf(size)).toEqual(shape));
});

describe('geminiImages.readGeneratedImages', () => {
  const read = (answer: object) => geminiImages.readGeneratedImages(JSON.stringify(answer));
  const generated = (extra: object) => ({
    inlineData: { mimeType: 'image/png', data: 'iVBO' },
    ...extra,
  });

  test('returns the images without drafts, text, and audio', () => {
    const audio = { inlineData: { mimeType: 'audio/wav', data: 'UklG' } };
    const parts = [{ text: 'Here.' }, generated({ thought: true }), audio, generated({})];
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
  ])('returns a failure for %j: %s', (answer, kind) =>
    expect(failureIn(read(answer))).toMatchObject({ kind }),
  );
});
