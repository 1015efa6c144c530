/** Images of Google's Gemini, which draws them in the middle of a chat. */
import { editImagesMax } from '../../core/bounds.ts';
import { type Fields, fieldsOf, isText, itemsOf, objectsIn, textOf } from '../../core/json.ts';
import type { UpstreamFailure } from '../dialect.ts';
import { malformed, readErrorObject } from '../failure.ts';
import { inBase64, joined, type Piece } from '../long-body.ts';
import type { ImagesDialect } from '../media/images.ts';
import { type Drawn, type DrawnImage, type ImageFile, shownMask } from '../media/images-wish.ts';
import { namesGiven } from '../parameters.ts';
import { readAnswer } from '../read-answer.ts';
import { finishReasonOf } from './finish.ts';
import { modelPath, pictureModalities } from './model.ts';
import { readUsage } from './usage.ts';

export const geminiImages: ImagesDialect = {
  mask: 'image',
  imagesMax: editImagesMax,
  write(wish, target) {
    const { prompt, images } = shownMask(wish);
    const { size, ...unsaid } = wish.parameters;
    const generationConfig = {
      responseModalities: pictureModalities(target),
      imageConfig: shapeOf(size),
    };
    const start = `{"contents":[{"role":"user","parts":[${JSON.stringify({ text: prompt })}`;
    const end = `]}],"generationConfig":${JSON.stringify(generationConfig)}}`;
    return {
      path: modelPath(target.upstreamModel, 'generateContent'),
      body: images.length === 0 ? start + end : joined([start, ...images.flatMap(inlined), end]),
      dropped: namesGiven({ ...unsaid, ...wish.more }),
    };
  },
  read: (text) => readAnswer(text, read),
};

function inlined({ mediaType, content }: ImageFile): readonly Piece[] {
  const start = `,{"inlineData":{"mimeType":"${mediaType}","data":"`;
  return [start, inBase64(content), '"}}'];
}

const ratios = ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9'];

/** Gemini takes no pixels, only a shape and a size class: the nearest ones to the wanted size. */
function shapeOf(size: string | null): object | undefined {
  const [, width, height] = /^(\d+)x(\d+)$/.exec(size ?? '') ?? [];
  if (width === undefined || height === undefined) return undefined;
  const wanted = Math.log(Number(width) / Number(height));
  const distance = (ratio: string) => {
    const [across = 1, down = 1] = ratio.split(':').map(Number);
    return Math.abs(Math.log(across / down) - wanted);
  };
  const aspectRatio = ratios.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  const longEdge = Math.max(Number(width), Number(height));
  // Gemini's older models have one size and refuse to be given it.
  if (longEdge <= 1536) return { aspectRatio };
  return { aspectRatio, imageSize: longEdge <= 2304 ? '2K' : '4K' };
}

function read(body: Fields): Drawn | UpstreamFailure {
  const { error, candidates, promptFeedback, usageMetadata } = body;
  if (error !== undefined && error !== null) return readErrorObject(body);
  const [candidate] = itemsOf(candidates);
  const images = imagesIn(fieldsOf(candidate).content);
  if (images.length === 0) return whyNone(candidate, promptFeedback);
  return { images, usage: readUsage(usageMetadata), about: {}, usageDetails: {} };
}

function imagesIn(content: unknown): readonly DrawnImage[] {
  return objectsIn(fieldsOf(content).parts).flatMap((part) => {
    // A picture that the model drew while thinking is a draft.
    if (part.thought === true) return [];
    const data = fieldsOf(part.inlineData);
    if (!textOf(data.mimeType).startsWith('image/') || !isText(data.data)) return [];
    return [{ base64: data.data, url: null, revisedPrompt: null }];
  });
}

/** A filter will refuse again; a model that only wrote text may draw at the next attempt. */
function whyNone(candidate: unknown, feedback: unknown): UpstreamFailure {
  const finish = fieldsOf(candidate).finishReason;
  const block = fieldsOf(feedback).blockReason;
  const word = [block, finish].find((reason) => typeof reason === 'string');
  const isFiltered =
    block !== undefined || finishReasonOf(textOf(finish), false) === 'content_filter';
  if (word === undefined || !isFiltered) {
    return malformed('The upstream answered without a picture.');
  }
  const message = `The provider declined to make this picture (${String(word).slice(0, 60)}).`;
  return { kind: 'request', status: 400, message, retryAfterSeconds: null };
}
