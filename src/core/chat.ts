import type { AddressInput, Ask } from './ask.ts';

/**
 * What a chat request asks of the steps between the client's dialect and the upstream's: enough
 * to route, bound, hold and log it, and nothing of its words.
 */
export interface ChatAsk extends Ask {
  readonly operation: 'chat';
  /** The most output the client asked for; null when it set no limit. */
  readonly outputTokensMax: number | null;
  readonly choices: number;
  readonly needs: ModelNeeds;
  /** Bounds the input tokens: no tokenizer makes more tokens than there are bytes. */
  readonly inputBytes: number;
  /** Whether it asks for some of the input to be kept in a cache for an hour. */
  readonly cachesForHour: () => boolean;
  readonly images: readonly ImageInput[];
  /** Set when the gateway shall search the web for the model. */
  readonly search: SearchWish | null;
  /** Names of the instructions to add, as the client wrote them. */
  readonly skills: readonly string[];
}

/** What a client says about the searches of a request; null leaves it to the operator. */
export interface SearchWish {
  /** Where it was asked for, for error messages. */
  readonly param: string;
  /** Asked for by a vendor's own name: without an engine here it stays the vendor's business. */
  readonly isVendors: boolean;
  readonly callsMax: number | null;
  readonly resultsMax: number | null;
  readonly allowedDomains: readonly string[];
  readonly excludedDomains: readonly string[];
  /** What the client calls them, for error messages. */
  readonly excludedName: 'excluded_domains' | 'blocked_domains';
}

/** What a model must be able to do for this request. */
export interface ModelNeeds {
  readonly tools: boolean;
  readonly json: boolean;
  readonly images: boolean;
  readonly audio: boolean;
  readonly files: boolean;
  /** A thinking budget in tokens was given, which adaptive models refuse. */
  readonly thinkingBudget: boolean;
}

/** The address may be a `data:` URL. */
export type ImageInput = AddressInput;
