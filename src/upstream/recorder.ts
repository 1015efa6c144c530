import type { Recording } from '../core/recording.ts';
import type { Offer } from '../route/catalog.ts';

/** Records an answer as it comes, so that it can be given again. */
export class AnswerRecorder {
  readonly #lengthMax: number;
  readonly #isShared: boolean;
  #isCapped = false;
  #isTruncated = false;
  #offer: Offer | undefined;
  #dropped: string | undefined;
  #form: Recording['form'] = 'whole';
  #pieces: string[] = [];
  #length = 0;

  /**
   * `isForOthers`: the recording may answer other requests, which have credits of their own. An
   * answer that is short for lack of credits is not kept for them.
   */
  constructor(lengthMax: number, isShared = false) {
    this.#lengthMax = lengthMax;
    this.#isShared = isShared;
  }

  /** Whether the next attempt is capped below what its client wants, for want of credits. */
  setCapped(isCapped: boolean): void {
    this.#isCapped = isCapped;
  }

  /** What the next attempt leaves out of the request, as its response header names it. */
  setDropped(names: string | undefined): void {
    this.#dropped = names;
  }

  /** An attempt begins; what an earlier one said is forgotten. */
  begin(offer: Offer, form: Recording['form']): void {
    this.#offer = offer;
    this.#form = form;
    this.#pieces = [];
    this.#length = 0;
    this.#isTruncated = false;
  }

  /** The credits do not pay for all that would be done for this answer. */
  markTruncated(): void {
    this.#isTruncated = true;
  }

  /** The upstream answers in one piece, whatever it was asked for. */
  markFull(): void {
    this.#form = 'whole';
  }

  add(text: string): void {
    this.#length += text.length;
    // An answer too long to be kept must not be held in memory either.
    if (this.#length <= this.#lengthMax) this.#pieces.push(text);
    else this.#pieces = [];
  }

  /** Undefined when there is nothing worth keeping. */
  recording(finishReason: string | undefined): Recording | undefined {
    const offer = this.#offer;
    if (!offer || this.#length === 0 || this.#length > this.#lengthMax) return undefined;
    const isTruncated = this.#isTruncated || (this.#isCapped && finishReason === 'length');
    if (isTruncated && this.#isShared) return undefined;
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
