import { editImagesMax } from '../../core/bounds.ts';
import {
  fieldsOf,
  isNonEmptyString,
  itemsOf,
  type JsonObject,
  objectsIn,
  textOf,
} from '../../core/json.ts';
import type { ReadResult, UpstreamFailure } from '../dialect.ts';
import { malformed, readAnswer, readErrorObject } from '../failure.ts';
import {
  type EmbeddingBatch,
  type EmbeddingsDialect,
  type GeneratedImage,
  type GeneratedImages,
  type ImageFile,
  type ImagesDialect,
  readVectors,
  withMaskAsImage,
} from '../media.ts';
import { presentParameterNames } from '../normalize/requests/vendor-parameters.ts';
import { readCount } from '../normalize/responses/counts.ts';
import { type BodyPart, concatBodies, inBase64 } from '../streamed-body.ts';
import { imageModalities, modelName, modelPath } from './upstream/model.ts';
import { finishReasonOf, readUsage } from './upstream/reader.ts';

// Gemini's embeddings, `batchEmbedContents`.

/** Gemini's maximum number of requests per batch. */
const requestsMax = 100;

export const geminiEmbeddings: EmbeddingsDialect = {
  acceptsTokens: false,
  batchMax: () => requestsMax,
  write({ inputs, dimensions, user, extraFields }, { upstreamModel }) {
    const size = dimensions === null ? {} : { outputDimensionality: dimensions };
    const requests = inputs.map((text) => ({
      model: `models/${modelName(upstreamModel)}`,
      content: { parts: [{ text }] },
      ...size,
    }));
    return {
      path: modelPath(upstreamModel, 'batchEmbedContents'),
      body: JSON.stringify({ requests }),
      dropped: presentParameterNames({ ...extraFields, user }),
    };
  },
  readBatch: (text) => readAnswer(text, readBatch),
};

function readBatch(body: JsonObject): ReadResult<EmbeddingBatch> {
  const { embeddings, usageMetadata: usage } = body;
  const found = Array.isArray(embeddings)
    ? embeddings.map((item) => fieldsOf(item).values)
    : undefined;
  // Only newer models report token counts.
  return readVectors(body, found, readCount(fieldsOf(usage).promptTokenCount));
}

// Gemini's images. Gemini returns them in chat answers.

export const geminiImages: ImagesDialect = {
  mask: 'image',
  imagesMax: editImagesMax,
  write(options, target) {
    const { prompt, images } = withMaskAsImage(options);
    const { size, ...unsupported } = options.parameters;
    const generationConfig = {
      responseModalities: imageModalities(target),
      imageConfig: imageConfigFor(size),
    };
    const start = `{"contents":[{"role":"user","parts":[${JSON.stringify({ text: prompt })}`;
    const end = `]}],"generationConfig":${JSON.stringify(generationConfig)}}`;
    return {
      path: modelPath(target.upstreamModel, 'generateContent'),
      body:
        images.length === 0
          ? start + end
          : concatBodies([start, ...images.flatMap(inlineImage), end]),
      dropped: presentParameterNames({ ...unsupported, ...options.extraFields }),
    };
  },
  readGeneratedImages: (text) => readAnswer(text, readGeneratedImages),
};

function inlineImage({ mediaType, content }: ImageFile): readonly BodyPart[] {
  const start = `,{"inlineData":{"mimeType":"${mediaType}","data":"`;
  return [start, inBase64(content), '"}}'];
}

const ratios = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9'];

/** Returns the aspect ratio and size class nearest to a size. Gemini accepts no size in pixels. */
function imageConfigFor(size: string | null): object | undefined {
  const [, width, height] = /^(\d+)x(\d+)$/.exec(size ?? '') ?? [];
  if (width === undefined || height === undefined) return undefined;
  const targetRatio = Math.log(Number(width) / Number(height));
  const distance = (ratio: string) => {
    const [across = 1, down = 1] = ratio.split(':').map(Number);
    return Math.abs(Math.log(across / down) - targetRatio);
  };
  const aspectRatio = ratios.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  const longEdge = Math.max(Number(width), Number(height));
  // Older models have only one size and reject `imageSize`.
  if (longEdge <= 1536) return { aspectRatio };
  return { aspectRatio, imageSize: longEdge <= 2304 ? '2K' : '4K' };
}

function readGeneratedImages(body: JsonObject): ReadResult<GeneratedImages> {
  const { error, candidates, promptFeedback, usageMetadata } = body;
  if (error !== undefined && error !== null) return { ok: false, failure: readErrorObject(body) };
  const [candidate] = itemsOf(candidates);
  const images = imagesIn(fieldsOf(candidate).content);
  if (images.length === 0) {
    return { ok: false, failure: noImageFailure(candidate, promptFeedback) };
  }
  const usage = readUsage(usageMetadata);
  return { ok: true, value: { images, usage, metadata: {}, usageDetails: {} } };
}

function imagesIn(content: unknown): readonly GeneratedImage[] {
  return objectsIn(fieldsOf(content).parts).flatMap((part) => {
    // An image generated while thinking is a draft.
    if (part.thought === true) return [];
    const data = fieldsOf(part.inlineData);
    if (!textOf(data.mimeType).startsWith('image/') || !isNonEmptyString(data.data)) return [];
    return [{ base64: data.data, url: null, revisedPrompt: null }];
  });
}

/**
 * Returns the failure for an answer without an image. A filter would reject the prompt again, but a
 * model that wrote only text may generate an image on the next attempt.
 */
function noImageFailure(candidate: unknown, feedback: unknown): UpstreamFailure {
  const finish = fieldsOf(candidate).finishReason;
  const block = fieldsOf(feedback).blockReason;
  const reason = [block, finish].find((value) => typeof value === 'string');
  const isFiltered =
    block !== undefined || finishReasonOf(textOf(finish), false) === 'content_filter';
  if (reason === undefined || !isFiltered) return malformed('The provider returned no image.');
  const message = `The provider declined to generate this image (${reason.slice(0, 60)}).`;
  return { kind: 'request', status: 400, message, retryAfterSeconds: null };
}
