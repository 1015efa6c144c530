import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import { speechContentType } from '../../core/media/audio.ts';
import type { Recording } from '../../core/recording.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { countCharacters } from '../../core/text.ts';
import { type Measured, noUsage } from '../../core/usage.ts';
import type { AnswerMetrics, TransformedReply } from '../../dialects/dialect.ts';
import type { SpeechDialect } from '../../dialects/media.ts';
import type { SpeechRequest } from '../../dialects/openai-media/speech.ts';
import { dialects } from '../../dialects/registry.ts';
import { FixedBounds, maxTokensIn } from '../../money/price/bounds.ts';
import { estimateUsage } from '../../money/price/cost.ts';
import { billableUsage } from '../../money/price/usage-report.ts';
import type { Offer } from '../../route/catalog.ts';
import {
  type AttemptContext,
  type AttemptResult,
  mediaTargetFor,
  noMetrics,
} from '../../upstream/attempt.ts';
import { attemptAudio } from '../../upstream/audio-attempt.ts';
import type { StreamOutcome } from '../../upstream/stream-answer.ts';
import { speechRejection, speedFor, voiceFor } from './capability.ts';
import { proratedUsage, recordAudio, typicalBytes } from './delivered-audio.ts';

/** The usage at a price without tokens. */
const unpriced = { usage: noUsage, isEstimate: false, note: null };

/** The most audio tokens held for one byte of text: twice the usual number. */
const audioTokensPerByte = 3;

/** A speech request, priced by the text's characters or bytes, or by tokens. */
export class SpeechOperation implements Operation {
  readonly request: RequestInfo;
  readonly bounds: FixedBounds;
  readonly #speechRequest: SpeechRequest;
  readonly #units: { readonly characters: number; readonly bytes: number };
  readonly #textBytes: number;
  /**
   * How the offer that answered is priced, and the size of the audio if the provider announced it.
   */
  #answered:
    | { readonly isTokenPriced: boolean; readonly announcedBytes: number | null }
    | undefined;

  constructor(speechRequest: SpeechRequest) {
    const { input, instructions, speed } = speechRequest;
    this.request = speechRequest.request;
    this.#speechRequest = speechRequest;
    const bytes = Buffer.byteLength(input);
    this.#units = { characters: countCharacters(input), bytes };
    this.#textBytes = bytes + Buffer.byteLength(instructions ?? '');
    const slowdown = speed !== null && speed > 0 ? Math.max(1, 1 / speed) : 1;
    const usage = {
      ...noUsage,
      inputTokens: maxTokensIn(this.#textBytes),
      outputTokens: Math.ceil(bytes * audioTokensPerByte * Math.min(4, slowdown)),
    };
    this.bounds = new FixedBounds({ usage, units: this.#units });
  }

  incompatibility({ model, dialect }: Offer): string | null {
    if (!model.features.includes('speech')) return 'is not a speech model';
    return dialects[dialect].speech ? null : 'has no speech endpoint';
  }

  /** Keeps the offers that accept the text's length and the format. Throws 400 if none does. */
  refine(plan: readonly Offer[]): readonly Offer[] {
    const checked = plan.map((offer) => ({
      offer,
      rejection: speechRejection(this.#speechRequest, this.#units, offer),
    }));
    const fitting = checked.filter(({ rejection }) => rejection === null);
    // If the primary provider is unhealthy, a fallback comes first. Report the primary's reason.
    const [primary] = checked.toSorted((a, b) => a.offer.priority - b.offer.priority);
    if (fitting.length === 0 && primary?.rejection) throw primary.rejection;
    return fitting.map(({ offer }) => offer);
  }

  lostFields(offer: Offer): readonly string[] {
    const dialect = dialects[offer.dialect].speech;
    return dialect ? this.#requestFor(offer, dialect).dropped : [];
  }

  /** Returns the request for an offer, and the client's fields that it lacks. */
  #requestFor(offer: Offer, dialect: SpeechDialect) {
    const { input, format, instructions, extraFields } = this.#speechRequest;
    const { speech = {} } = offer;
    const speed = speedFor(this.#speechRequest, offer);
    const acceptsInstructions = speech.instructions !== false;
    const asEvents =
      hasTokenPrice(offer) && speech.reports_usage === true && dialect.openEvents !== null;
    const voice = voiceFor(this.#speechRequest.voice, speech, dialect);
    const common = { input, format, voice, speed, asEvents };
    const options = {
      ...common,
      instructions: acceptsInstructions ? instructions : null,
      extraFields,
    };
    const request = dialect.write(options, mediaTargetFor(offer));
    const dropped = [
      ...(request.dropped ?? []),
      // 1 is the usual speed, so nothing is lost.
      ...((this.#speechRequest.speed ?? 1) !== 1 && speed === null ? ['speed'] : []),
      ...(instructions !== null && !acceptsInstructions ? ['instructions'] : []),
    ];
    return { request, dropped };
  }

  async tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const dialect = dialects[offer.dialect].speech;
    assert(dialect, `The plan has an offer whose dialect can't speak: ${offer.dialect}.`);
    const { format } = this.#speechRequest;
    const { request, dropped } = this.#requestFor(offer, dialect);
    context.reportDropped(dropped);
    const { openEvents } = dialect;
    const contentTypeFor = (first: Uint8Array) => speechContentType(first, format);
    const result = await attemptAudio({ request, contentTypeFor, openEvents }, offer, context);
    if (result.kind !== 'bytes') return result;
    this.#answered = { isTokenPriced: hasTokenPrice(offer), announcedBytes: result.contentLength };
    context.recorder?.begin(offer, 'reply');
    return context.recorder ? recordAudio(result, context.recorder) : result;
  }

  measure(metrics: AnswerMetrics, outcome: StreamOutcome['kind']): Measured {
    const { usage: reportedUsage, outputCharacters: deliveredBytes } = metrics;
    const { isTokenPriced = false, announcedBytes = null } = this.#answered ?? {};
    // Audio tokens are never estimated, so the report decides whether there are any.
    const billable = billableUsage(
      { ...noMetrics, usage: reportedUsage },
      {
        isComplete: true,
        isPlausible: () => true,
        estimate: () => estimateUsage(this.#textBytes, 0),
      },
    );
    const full = { ...(isTokenPriced ? billable : unpriced), units: this.#units };
    if (outcome === 'complete') return full;
    return proratedUsage(full, {
      outcome,
      deliveredBytes,
      announcedBytes,
      typicalBytes: this.#typicalBytes,
    });
  }

  cacheIdentity(): CacheIdentity {
    const { request: _, ...cacheKeyInput } = this.#speechRequest;
    return { cacheKeyInput: () => cacheKeyInput, isRepeatable: false };
  }

  /** The body is the recorded text. http/inference/audio.ts decodes it. */
  replay({ text }: Recording): TransformedReply {
    return { metrics: noMetrics, write: () => text };
  }

  get #typicalBytes(): number {
    return typicalBytes(
      this.#speechRequest.format,
      this.#units.bytes,
      this.#speechRequest.speed ?? 1,
    );
  }
}

function hasTokenPrice({ prices }: Offer): boolean {
  return prices.prompt > 0n || prices.completion > 0n;
}
