import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import type { SpeechSettings } from '../../config/model-schema.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import {
  type SpeechFormat,
  speechContentType,
  speechStyleRefusal,
} from '../../core/media/audio.ts';
import type { Recording } from '../../core/recording.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { countCharacters } from '../../core/text.ts';
import { type Measured, noUnits, noUsage } from '../../core/usage.ts';
import type { AnswerMetrics, TransformedReply } from '../../dialects/dialect.ts';
import type { SpeechRequest } from '../../dialects/openai-media/speech.ts';
import { type SpeechDialect, speechDialect } from '../../dialects/registry.ts';
import { FixedBounds, maxTokensIn } from '../../money/price/bounds.ts';
import { estimateNote, estimateUsage } from '../../money/price/cost.ts';
import { textLimitOf } from '../../route/capability.ts';
import type { Offer } from '../../route/catalog.ts';
import {
  type AttemptContext,
  type AttemptResult,
  mediaTargetFor,
  noMetrics,
} from '../../upstream/attempt.ts';
import { attemptBytes, type OpenBytes } from '../../upstream/byte-stream.ts';
import type { AnswerRecorder } from '../../upstream/recorder.ts';
import type { StreamOutcome } from '../../upstream/stream-answer.ts';

/** Audio tokens that a byte of text may become: twice the usual number. */
const audioTokensPerByte = 3;

/** A text to be spoken, priced by its characters or bytes, or by the tokens that it takes. */
export class SpeechOperation implements Operation {
  readonly request: RequestInfo;
  readonly bounds: FixedBounds;
  readonly #speechRequest: SpeechRequest;
  readonly #units: { readonly characters: number; readonly bytes: number };
  readonly #textBytes: number;
  /** How the offer that answered is priced, and how long the audio is if it said so. */
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
    return speechDialect(dialect) ? null : 'cannot be asked for speech where it is served';
  }

  /** A text that is too long for one offer may still be spoken by another. */
  refine(plan: readonly Offer[]): readonly Offer[] {
    const checked = plan.map((offer) => ({
      offer,
      refusal: speechRefusal(this.#speechRequest, this.#units, offer),
    }));
    const fitting = checked.filter(({ refusal }) => refusal === null);
    // Health may have put a fallback first; the refusal told is that of the main offer.
    const [primary] = checked.toSorted((a, b) => a.offer.priority - b.offer.priority);
    if (fitting.length === 0 && primary?.refusal) throw primary.refusal;
    return fitting.map(({ offer }) => offer);
  }

  async tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const dialect = speechDialect(offer.dialect);
    assert(dialect, `No speech at ${offer.dialect} was planned.`);
    const { input, format, instructions, more } = this.#speechRequest;
    const { openEvents } = dialect;
    const { prices, speech = {} } = offer;
    const isTokenPriced = prices.prompt > 0n || prices.completion > 0n;
    const speed = speedFor(this.#speechRequest, offer);
    const acceptsInstructions = speech.instructions !== false;
    const asEvents = isTokenPriced && speech.reports_usage === true && openEvents !== undefined;
    const voice = voiceFor(this.#speechRequest.voice, speech, dialect);
    const common = { input, format, voice, speed, asEvents };
    const options = { ...common, instructions: acceptsInstructions ? instructions : null, more };
    const request = dialect.write(options, mediaTargetFor(offer));
    const unsent = [
      ...(this.#speechRequest.speed !== null && speed === null ? ['speed'] : []),
      ...(instructions !== null && !acceptsInstructions ? ['instructions'] : []),
    ];
    context.reportDropped([...(request.dropped ?? []), ...unsent]);
    const contentTypeFor = (first: Uint8Array) => speechContentType(first, format);
    const result = await attemptBytes({ request, contentTypeFor, openEvents }, offer, context);
    if (result.kind !== 'bytes') return result;
    this.#answered = { isTokenPriced, announcedBytes: result.contentLength };
    context.recorder?.begin(offer, 'whole');
    return context.recorder ? recordAudio(result, context.recorder) : result;
  }

  measure(metrics: AnswerMetrics, outcome: StreamOutcome['kind']): Measured {
    const { usage: reportedUsage, outputCharacters: deliveredBytes } = metrics;
    const { isTokenPriced = false, announcedBytes = null } = this.#answered ?? {};
    const usage = isTokenPriced ? (reportedUsage ?? estimateUsage(this.#textBytes, 0)) : noUsage;
    const isEstimate = isTokenPriced && !reportedUsage;
    const note = isEstimate ? estimateNote : null;
    const full = { usage, units: this.#units, isEstimate, note };
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

  /** The body is the text of the tape; only http/ knows how to send it as bytes. */
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

/** How a model's style of speech changes what a client asked for. */

/** Why an offer cannot speak this text in the wanted way; null when it can. */
function speechRefusal(
  request: SpeechRequest,
  size: { readonly characters: number; readonly bytes: number },
  { model, speech, dialect }: Offer,
): GatewayError | null {
  const { style, voices } = model.speech ?? {};
  if (style === 'first_party') {
    const refusal = speechStyleRefusal(request, voices ? Object.keys(voices) : null, model.id);
    if (refusal) return refusal;
  }
  const { unit, max } = textLimitOf(speech);
  if (size[unit] > max) {
    const found = `input has ${size[unit]} ${unit === 'bytes' ? 'UTF-8 bytes' : unit}`;
    const limit = `${model.id} takes at most ${max} at once`;
    return invalidRequest(`${found}, and ${limit}; POST /v1/jobs takes longer texts.`, 'input');
  }
  const formats = speechDialect(dialect)?.formats ?? [];
  if (!formats.includes(request.format)) {
    const message = `response_format must be one of ${formats.join(', ')} with ${model.id}.`;
    return invalidRequest(message, 'response_format');
  }
  return null;
}

/** The speed to ask for: only first-party-style models follow it, and theirs was checked before. */
function speedFor({ speed }: SpeechRequest, { model }: Offer): number | null {
  return model.speech?.style === 'first_party' ? speed : null;
}

/** What the provider calls a voice; an unknown one becomes its default. */
function voiceFor(voice: string, terms: SpeechSettings, dialect: SpeechDialect): string {
  const hasOwnVoices = terms.voices !== undefined || terms.default_voice !== undefined;
  const { voices = {}, default_voice: defaultVoice } = hasOwnVoices
    ? terms
    : (dialect.voices ?? {});
  if (Object.hasOwn(voices, voice)) return voices[voice] ?? voice;
  // The provider's own name for a voice, or a voice that was made there from a recording.
  const isProviderVoice = Object.values(voices).includes(voice) || voice.includes(':');
  return isProviderVoice ? voice : (defaultVoice ?? voice);
}

/** What is charged for speech of which only a part was delivered. */

/**
 * People read about fifteen bytes of text aloud in a second: fifteen letters, or five characters
 * of Chinese.
 */
const textBytesPerSecond = 15;

/** What vendors usually send; raw audio has 24,000 samples of two bytes. */
const audioBytesPerSecond: Readonly<Record<SpeechFormat, number>> = {
  mp3: 16_000,
  opus: 4_000,
  aac: 8_000,
  flac: 24_000,
  wav: 48_000,
  pcm: 48_000,
};

/** How many bytes the whole audio of a text probably has. */
export function typicalBytes(format: SpeechFormat, textBytes: number, speed: number): number {
  const seconds = textBytes / textBytesPerSecond / (speed > 0 ? speed : 1);
  return Math.ceil(seconds * audioBytesPerSecond[format]);
}

interface Delivery {
  readonly outcome: StreamOutcome['kind'];
  readonly deliveredBytes: number;
  /** The length that the provider announced; null when it did not. */
  readonly announcedBytes: number | null;
  readonly typicalBytes: number;
}

/** The part of a charge that is in proportion to the audio delivered. */
export function proratedUsage(full: Measured, delivery: Delivery): Measured {
  const { outcome, deliveredBytes, announcedBytes } = delivery;
  const reason = outcome === 'cut' ? 'The provider broke off' : 'The client left before the end';
  if (deliveredBytes === 0) {
    const note = `${reason}; no audio was delivered and nothing is charged.`;
    return { usage: noUsage, units: noUnits, isEstimate: false, isFree: true, note };
  }
  const totalBytes = Math.max(deliveredBytes, announcedBytes ?? delivery.typicalBytes);
  const prorate = (count = 0) => Math.ceil((count * deliveredBytes) / totalBytes);
  const qualifier = announcedBytes === null ? 'about ' : '';
  const delivered = `${deliveredBytes} of ${qualifier}${totalBytes} bytes of audio were delivered`;
  const note = `${reason}; ${delivered}, and the charge is in proportion.`;
  return {
    usage: {
      ...noUsage,
      inputTokens: prorate(full.usage.inputTokens),
      outputTokens: prorate(full.usage.outputTokens),
    },
    units: { characters: prorate(full.units.characters), bytes: prorate(full.units.bytes) },
    isEstimate: full.isEstimate || announcedBytes === null,
    note: full.note === null ? note : `${full.note} ${note}`,
  };
}

/** Speech that is given again when a request is repeated: its bytes, kept as text. */

/** The same audio; the tape records it as it comes. */
function recordAudio(audio: OpenBytes, recorder: AnswerRecorder): OpenBytes {
  const record = (piece: Uint8Array) => recorder.add(`${Buffer.from(piece).toString('base64')}\n`);
  record(audio.first);
  return {
    ...audio,
    async next() {
      const piece = await audio.next();
      if (piece) record(piece);
      return piece;
    },
  };
}

export function decodeRecordedAudio(text: string): Uint8Array<ArrayBuffer> {
  return Buffer.concat(text.split('\n').map((piece) => Buffer.from(piece, 'base64')));
}
