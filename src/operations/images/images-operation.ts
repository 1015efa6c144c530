import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import { imageAttemptMs } from '../../core/bounds.ts';
import type { Upload } from '../../core/form.ts';
import type { Recording } from '../../core/recording.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { charactersPerImage, type Measured, noUsage, type Units } from '../../core/usage.ts';
import type { AnswerMetrics, ReplyIdentity, TransformedReply } from '../../dialects/dialect.ts';
import type { GeneratedImages, ImageFile, ImagesDialect } from '../../dialects/media.ts';
import type { ImagesRequest, MaskEdits } from '../../dialects/openai-media/images.ts';
import { dialects } from '../../dialects/registry.ts';
import { FixedBounds, maxTokensIn } from '../../money/price/bounds.ts';
import { estimateUsage } from '../../money/price/cost.ts';
import { billableUsage, estimateNote } from '../../money/price/usage-report.ts';
import type { Offer } from '../../route/catalog.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';
import {
  type AttemptResult,
  attemptFull,
  failed,
  mediaTargetFor,
  noMetrics,
} from '../../upstream/attempt.ts';
import type { Mask } from './mask.ts';
import { readRecordedImage, resolveImage, toReply } from './reply.ts';

/** An image that a client uploaded. */
export interface UploadedImage extends ImageFile {
  readonly content: Upload;
}

export interface UploadedMask {
  readonly mask: Mask;
  readonly edits: MaskEdits;
  readonly sha256: string;
}

/** Tokens held for each uploaded image, which is an upper bound. */
const inputImageTokens = 8_192;

/** Tokens of a generated image: `held` beforehand, `typical` if the provider reports none. */
const outputTokens = {
  low: { held: 2_048, typical: 272 },
  medium: { held: 8_192, typical: 1_056 },
  high: { held: 16_384, typical: 4_160 },
  auto: { held: 16_384, typical: 1_056 },
};

/** An image generated from a prompt, or an edit of uploaded images. */
export class ImagesOperation implements Operation {
  readonly request: RequestInfo;
  readonly bounds: FixedBounds;
  readonly #imagesRequest: ImagesRequest;
  readonly #images: readonly UploadedImage[];
  readonly #mask: UploadedMask | null;
  readonly #units: Units;
  readonly #attemptMs: number;
  /** True if the offer that answered is priced by tokens. */
  #isPricedByTokens = false;

  constructor(
    imagesRequest: ImagesRequest,
    images: readonly UploadedImage[] = [],
    mask: UploadedMask | null = null,
    attemptMs = imageAttemptMs,
  ) {
    this.request = imagesRequest.request;
    this.#imagesRequest = imagesRequest;
    this.#images = images;
    this.#mask = mask;
    this.#attemptMs = attemptMs;
    this.#units = { inputImages: images.length, outputImages: 1 };
    const promptTokens = maxTokensIn(Buffer.byteLength(imagesRequest.prompt));
    const usage = {
      ...noUsage,
      inputTokens: promptTokens + (images.length + (mask ? 1 : 0)) * inputImageTokens,
      outputTokens: this.#outputTokens.held,
    };
    this.bounds = new FixedBounds({ usage, units: this.#units });
  }

  incompatibility({ model, dialect }: Offer): string | null {
    const generator = dialects[dialect].images;
    if (this.#images.length === 0) {
      const canGenerate = generator && model.features.includes('image_generation');
      return canGenerate ? null : 'does not generate images';
    }
    const readsImages = model.input_modalities.includes('image');
    if (!generator || !readsImages || !model.features.includes('image_edit'))
      return 'does not edit images';
    return this.#images.length > generator.imagesMax ? 'edits one image at a time' : null;
  }

  lostFields(offer: Offer): readonly string[] {
    const options = { ...this.#options, mask: null };
    const dialect = dialects[offer.dialect].images;
    return dialect?.write(options, mediaTargetFor(offer)).dropped ?? [];
  }

  get #options() {
    const { prompt, parameters, extraFields } = this.#imagesRequest;
    return { prompt, parameters, extraFields, images: this.#images };
  }

  async tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const dialect = dialects[offer.dialect].images;
    assert(dialect, `The plan has an offer whose dialect can't make images: ${offer.dialect}.`);
    const { prices } = offer;
    const options = { ...this.#options, mask: await this.#maskFor(dialect) };
    const request = dialect.write(options, mediaTargetFor(offer));
    context.reportDropped(request.dropped ?? []);
    const fullRequest = { request, read: dialect.readGeneratedImages, attemptMs: this.#attemptMs };
    const generated = await attemptFull<GeneratedImages>(fullRequest, offer, context);
    if (!generated.ok) return failed(generated.failure);
    this.#isPricedByTokens = prices.prompt > 0n || prices.completion > 0n;
    const answer = await resolveImage(generated.value, offer, context);
    context.recorder?.begin(offer, 'reply');
    context.recorder?.add(JSON.stringify(answer));
    return { kind: 'reply', reply: toReply(answer, context.identity) };
  }

  measure(metrics: AnswerMetrics): Measured {
    const units = this.#units;
    if (!this.#isPricedByTokens)
      return { usage: metrics.usage ?? noUsage, units, isEstimate: false, note: null };
    const estimate = () => ({
      ...estimateUsage(Buffer.byteLength(this.#imagesRequest.prompt), 0),
      outputTokens: this.#outputTokens.typical,
    });
    const image = { ...noMetrics, usage: metrics.usage, outputCharacters: charactersPerImage };
    const billable = billableUsage(image, { isComplete: true, isPlausible: () => true, estimate });
    return { ...billable, units };
  }

  /** Counts the prompt and the uploaded images, but no output. */
  measureInput(): Measured {
    const usage = estimateUsage(Buffer.byteLength(this.#imagesRequest.prompt), 0);
    const units = { inputImages: this.#images.length };
    return { usage, units, isEstimate: true, note: estimateNote };
  }

  cacheIdentity(): CacheIdentity {
    const { prompt, parameters, extraFields } = this.#imagesRequest;
    const images = this.#images.map(({ content }) => content.sha256);
    const cacheKeyInput = () => ({
      prompt,
      parameters,
      extraFields,
      images,
      mask: this.#mask?.sha256,
      maskEdits: this.#mask?.edits,
    });
    return { cacheKeyInput, isRepeatable: false };
  }

  replay(recording: Recording, identity: ReplyIdentity): TransformedReply | undefined {
    const answer = readRecordedImage(recording.text);
    return answer && toReply(answer, identity);
  }

  get #outputTokens() {
    return outputTokens[this.#imagesRequest.parameters.quality ?? 'auto'];
  }

  async #maskFor(dialect: ImagesDialect): Promise<ImageFile | null> {
    if (!this.#mask) return null;
    const { mask } = this.#mask;
    return dialect.mask === 'alpha' ? mask.inverted() : mask.blackAndWhite();
  }
}
