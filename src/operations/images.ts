import { strict as assert } from 'node:assert';
import type { Errand, Sameness } from '../call.ts';
import type { Ask } from '../core/ask.ts';
import { imageAttemptMs } from '../core/bounds.ts';
import type { Recording } from '../core/recording.ts';
import type { Upload } from '../core/upload.ts';
import { type Measured, noUsage, type Units } from '../core/usage.ts';
import type { ReplyFacts, ReplyIdentity, ReplyRelay } from '../dialects/dialect.ts';
import { type ImagesDialect, imagesDialect } from '../dialects/media/images.ts';
import type { Drawn, ImageFile } from '../dialects/media/images-wish.ts';
import type { ImagesRequest } from '../dialects/openai/media/images-request.ts';
import { FixedBounds, tokensWithin } from '../meter/bound.ts';
import { estimateNote, estimateUsage } from '../meter/estimate.ts';
import type { Offer } from '../route/catalogue.ts';
import { type AttemptResult, failed } from '../upstream/attempt.ts';
import type { Link } from '../upstream/link.ts';
import { isFailure, tryWhole } from '../upstream/try-whole.ts';
import { imageAnswerOf, readRecorded, relayOf } from './image/answer.ts';
import type { Mask } from './image/mask.ts';
import { targetAt } from './target.ts';

/** An image that a client sent. */
export interface SentImage extends ImageFile {
  readonly content: Upload;
}

export interface SentMask {
  readonly mask: Mask;
  readonly sha256: string;
}

/** The most tokens that an image of the client costs. */
const inputImageTokens = 8_192;

/** Tokens of a generated image: held beforehand, and charged when the provider did not count. */
const outputTokens = {
  low: { held: 2_048, typical: 272 },
  medium: { held: 8_192, typical: 1_056 },
  high: { held: 16_384, typical: 4_160 },
  auto: { held: 16_384, typical: 1_056 },
};

/** An image to be made from words, or an edit of images. */
export class ImagesErrand implements Errand {
  readonly ask: Ask;
  readonly bounds: FixedBounds;
  readonly #request: ImagesRequest;
  readonly #images: readonly SentImage[];
  readonly #mask: SentMask | null;
  readonly #units: Units;
  readonly #attemptMs: number;
  #isPricedByTokens = false;

  constructor(
    request: ImagesRequest,
    images: readonly SentImage[] = [],
    mask: SentMask | null = null,
    attemptMs = imageAttemptMs,
  ) {
    this.ask = request.ask;
    this.#request = request;
    this.#images = images;
    this.#mask = mask;
    this.#attemptMs = attemptMs;
    this.#units = { inputImages: images.length, outputImages: 1 };
    const words = tokensWithin(Buffer.byteLength(request.prompt));
    const usage = {
      ...noUsage,
      inputTokens: words + (images.length + (mask ? 1 : 0)) * inputImageTokens,
      outputTokens: this.#outputTokens.held,
    };
    this.bounds = new FixedBounds({ usage, units: this.#units });
  }

  misfit({ model, dialect }: Offer): string | null {
    const drawer = imagesDialect(dialect);
    if (this.#images.length === 0) {
      const isAble = drawer && model.features.includes('image_generation');
      return isAble ? null : 'does not generate images';
    }
    const reads = model.input_modalities.includes('image');
    if (!drawer || !reads || !model.features.includes('image_edit')) return 'does not edit images';
    return this.#images.length > drawer.imagesMax ? 'edits one image at a time' : null;
  }

  async tryAt(offer: Offer, link: Link): Promise<AttemptResult> {
    const dialect = imagesDialect(offer.dialect);
    assert(dialect, `No images at ${offer.dialect} were planned.`);
    const { prices } = offer;
    const { prompt, parameters, more } = this.#request;
    const wish = {
      prompt,
      parameters,
      more,
      images: this.#images,
      mask: await this.#maskFor(dialect),
    };
    const request = dialect.write(wish, targetAt(offer));
    link.tellDropped(request.dropped ?? []);
    const question = { request, read: dialect.read, attemptMs: this.#attemptMs };
    const drawn = await tryWhole<Drawn>(question, offer, link);
    if (isFailure(drawn)) return failed(drawn);
    this.#isPricedByTokens = prices.prompt > 0n || prices.completion > 0n;
    const answer = await imageAnswerOf(drawn, offer, link);
    link.tape?.begin(offer, 'whole');
    link.tape?.add(JSON.stringify(answer));
    return { kind: 'reply', relay: relayOf(answer, link.identity) };
  }

  measure({ usage }: ReplyFacts): Measured {
    const units = this.#units;
    if (usage) return { usage, units, isEstimate: false, note: null };
    if (!this.#isPricedByTokens) return { usage: noUsage, units, isEstimate: false, note: null };
    const estimate = {
      ...estimateUsage(Buffer.byteLength(this.#request.prompt), 0),
      outputTokens: this.#outputTokens.typical,
    };
    return { usage: estimate, units, isEstimate: true, note: estimateNote };
  }

  sameness(): Sameness {
    const { prompt, parameters, more } = this.#request;
    const images = this.#images.map(({ content }) => content.sha256);
    const wording = () => ({ prompt, parameters, more, images, mask: this.#mask?.sha256 });
    return { wording, isRepeatable: false };
  }

  replay(recording: Recording, identity: ReplyIdentity): ReplyRelay | undefined {
    const answer = readRecorded(recording.text);
    return answer && relayOf(answer, identity);
  }

  get #outputTokens() {
    return outputTokens[this.#request.parameters.quality ?? 'auto'];
  }

  async #maskFor(dialect: ImagesDialect): Promise<ImageFile | null> {
    if (!this.#mask) return null;
    const { mask } = this.#mask;
    return dialect.mask === 'alpha' ? mask.inverted() : mask.blackAndWhite();
  }
}
