import type { Recording } from '../core/recording.ts';
import type { Offer } from '../route/catalog.ts';

/** Records an answer as it arrives, for the cache or for idempotent retries. */
export class AnswerRecorder {
  readonly #lengthMax: number;
  readonly #isShared: boolean;
  #isCapped = false;
  #isTruncated = false;
  #mayShare = true;
  #offer: Offer | undefined;
  #dropped: string | undefined;
  #form: Recording['form'] = 'reply';
  #pieces: string[] = [];
  #length = 0;

  /**
   * `isShared` means that the recording may answer other requests. Such a recording isn't stored if
   * the credits didn't cover the full answer.
   */
  constructor(lengthMax: number, isShared = false) {
    this.#lengthMax = lengthMax;
    this.#isShared = isShared;
  }

  /** Records whether the next attempt's output is capped by the available credits. */
  setCapped(isCapped: boolean): void {
    this.#isCapped = isCapped;
  }

  /** Records the parameters dropped by the next attempt, as in its response header. */
  setDropped(names: string | undefined): void {
    this.#dropped = names;
  }

  /** Starts an attempt and discards the recording of the previous one. */
  begin(offer: Offer, form: Recording['form']): void {
    this.#offer = offer;
    this.#form = form;
    this.#pieces = [];
    this.#length = 0;
    this.#isTruncated = false;
  }

  /** Records that the credits don't cover the full answer. */
  markTruncated(): void {
    this.#isTruncated = true;
  }

  /** Records that the upstream doesn't allow other requests to get its answer. */
  forbidSharing(): void {
    this.#mayShare = false;
  }

  /** Records that the upstream sent a non-streaming response, even if a stream was requested. */
  markFull(): void {
    this.#form = 'reply';
  }

  add(text: string): void {
    this.#length += text.length;
    // If the answer is too long to store, don't keep it in memory either.
    if (this.#length <= this.#lengthMax) this.#pieces.push(text);
    else this.#pieces = [];
  }

  /** Returns the recording, or undefined if there is nothing to store. */
  recording(finishReason: string | undefined): Recording | undefined {
    const offer = this.#offer;
    if (!offer || this.#length === 0 || this.#length > this.#lengthMax) return undefined;
    const isTruncated = this.#isTruncated || (this.#isCapped && finishReason === 'length');
    if (this.#isShared && (isTruncated || !this.#mayShare)) return undefined;
    return {
      dialect: offer.dialect,
      form: this.#form,
      text: this.#pieces.join(''),
      model: offer.model.id,
      provider: offer.provider.name,
      dropped: this.#dropped,
    };
  }
}
