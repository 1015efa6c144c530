import { strict as assert } from 'node:assert';
import type { Errand, Sameness } from '../call.ts';
import type { Ask } from '../core/ask.ts';
import { countCharacters } from '../core/characters.ts';
import { spokenType } from '../core/media/audio-type.ts';
import type { Recording } from '../core/recording.ts';
import { type Measured, noUsage } from '../core/usage.ts';
import type { ReplyFacts, ReplyRelay } from '../dialects/dialect.ts';
import { speechDialect } from '../dialects/media/speech.ts';
import type { SpeechRequest } from '../dialects/openai/media/speech-request.ts';
import { FixedBounds, tokensWithin } from '../meter/bound.ts';
import { estimateNote, estimateUsage } from '../meter/estimate.ts';
import type { Offer } from '../route/catalogue.ts';
import type { AttemptResult } from '../upstream/attempt.ts';
import type { Link } from '../upstream/link.ts';
import type { StreamEnd } from '../upstream/stream-answer.ts';
import { tryBytes } from '../upstream/try-bytes.ts';
import { noFacts } from '../upstream/try-whole.ts';
import { taped } from './audio/spoken-again.ts';
import { partOf, typicalBytes } from './audio/spoken-part.ts';
import { refusalOf, speedAt, voiceAt } from './audio/voice.ts';
import { targetAt } from './target.ts';

/** Audio tokens that a byte of text may become: twice the usual number. */
const audioTokensPerByte = 3;

/** A text to be spoken, priced by its characters or bytes, or by the tokens that it takes. */
export class SpeechErrand implements Errand {
  readonly ask: Ask;
  readonly bounds: FixedBounds;
  readonly #request: SpeechRequest;
  readonly #units: { readonly characters: number; readonly bytes: number };
  readonly #wordBytes: number;
  /** How the offer that answered is priced, and how long the audio is if it said so. */
  #answered: { readonly isTokenPriced: boolean; readonly wholeBytes: number | null } | undefined;

  constructor(request: SpeechRequest) {
    const { input, instructions, speed } = request;
    this.ask = request.ask;
    this.#request = request;
    const bytes = Buffer.byteLength(input);
    this.#units = { characters: countCharacters(input), bytes };
    this.#wordBytes = bytes + Buffer.byteLength(instructions ?? '');
    const slowness = speed !== null && speed > 0 ? Math.max(1, 1 / speed) : 1;
    const usage = {
      ...noUsage,
      inputTokens: tokensWithin(this.#wordBytes),
      outputTokens: Math.ceil(bytes * audioTokensPerByte * Math.min(4, slowness)),
    };
    this.bounds = new FixedBounds({ usage, units: this.#units });
  }

  misfit({ model, dialect }: Offer): string | null {
    if (!model.features.includes('speech')) return 'is not a speech model';
    return speechDialect(dialect) ? null : 'cannot be asked for speech where it is served';
  }

  /** A text that is too long for one offer may still be spoken by another. */
  refine(plan: readonly Offer[]): readonly Offer[] {
    const looked = plan.map((offer) => ({
      offer,
      refusal: refusalOf(this.#request, this.#units, offer),
    }));
    const fitting = looked.filter(({ refusal }) => refusal === null);
    // Health may have put a fallback first; the refusal told is that of the main offer.
    const [main] = looked.toSorted((a, b) => a.offer.priority - b.offer.priority);
    if (fitting.length === 0 && main?.refusal) throw main.refusal;
    return fitting.map(({ offer }) => offer);
  }

  async tryAt(offer: Offer, link: Link): Promise<AttemptResult> {
    const dialect = speechDialect(offer.dialect);
    assert(dialect, `No speech at ${offer.dialect} was planned.`);
    const { input, format, instructions, more } = this.#request;
    const { openEvents } = dialect;
    const { prices, speech = {} } = offer;
    const isTokenPriced = prices.prompt > 0n || prices.completion > 0n;
    const speed = speedAt(this.#request, offer);
    const follows = speech.instructions !== false;
    const asEvents = isTokenPriced && speech.reports_usage === true && openEvents !== undefined;
    const voice = voiceAt(this.#request.voice, speech, dialect);
    const wish = { input, format, voice, speed, asEvents };
    const said = { ...wish, instructions: follows ? instructions : null, more };
    const request = dialect.write(said, targetAt(offer));
    const unsaid = [
      ...(this.#request.speed !== null && speed === null ? ['speed'] : []),
      ...(instructions !== null && !follows ? ['instructions'] : []),
    ];
    link.tellDropped([...(request.dropped ?? []), ...unsaid]);
    const typeOf = (first: Uint8Array) => spokenType(first, format);
    const result = await tryBytes({ request, typeOf, openEvents }, offer, link);
    if (result.kind !== 'bytes') return result;
    this.#answered = { isTokenPriced, wholeBytes: result.contentLength };
    link.tape?.begin(offer, 'whole');
    return link.tape ? taped(result, link.tape) : result;
  }

  measure(facts: ReplyFacts, how: StreamEnd['how']): Measured {
    const { usage: told, outputCharacters: deliveredBytes } = facts;
    const { isTokenPriced = false, wholeBytes = null } = this.#answered ?? {};
    const usage = isTokenPriced ? (told ?? estimateUsage(this.#wordBytes, 0)) : noUsage;
    const isEstimate = isTokenPriced && !told;
    const note = isEstimate ? estimateNote : null;
    const all = { usage, units: this.#units, isEstimate, note };
    if (how === 'complete') return all;
    return partOf(all, { how, deliveredBytes, wholeBytes, typicalBytes: this.#typicalBytes });
  }

  sameness(): Sameness {
    const { ask: _, ...wording } = this.#request;
    return { wording: () => wording, isRepeatable: false };
  }

  /** The body is the text of the tape; only http/ knows how to send it as bytes. */
  replay({ text }: Recording): ReplyRelay {
    return { facts: noFacts, write: () => text };
  }

  get #typicalBytes(): number {
    return typicalBytes(this.#request.format, this.#units.bytes, this.#request.speed ?? 1);
  }
}
