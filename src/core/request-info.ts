/** What every request asks of the steps between its client and an upstream. */
export interface RequestInfo {
  readonly operationName: OperationName;
  /** The fallback chain: `model`, then `models`, duplicates dropped. */
  readonly models: readonly string[];
  readonly preferences: RoutePreferences;
  /** Whether the answer comes as a stream of events. */
  readonly stream: boolean;
  /** Optional parameters present; told only for `provider.require_parameters`. */
  readonly parameters: readonly string[];
  /** The end user, as the client names them. */
  readonly user: string | null;
  /** Addresses that an upstream may fetch for this request, except the pictures of a chat. */
  readonly addresses?: readonly AddressInput[];
  /** The pictures of a chat. */
  readonly images?: readonly AddressInput[];
  /** The first thing in the request that only the tenant's own account may be asked for. */
  readonly ownAccount?: OwnAccountNeed | undefined;
}

/**
 * What a chat request asks of the steps between the client's dialect and the upstream's: enough
 * to route, bound, hold and log it, and nothing of its words.
 */
export interface ChatRequestInfo extends RequestInfo {
  readonly operationName: 'chat';
  /** The most output the client asked for; null when it set no limit. */
  readonly outputTokensMax: number | null;
  readonly choices: number;
  readonly needs: ModelNeeds;
  /** Bounds the input tokens: no tokenizer makes more tokens than there are bytes. */
  readonly inputBytes: number;
  /** Whether it asks for some of the input to be kept in a cache for an hour. */
  readonly cachesForHour: () => boolean;
  readonly images: readonly AddressInput[];
  /** Set when the gateway shall search the web for the model. */
  readonly search: SearchOptions | null;
  /** Names of the instructions to add, as the client wrote them. */
  readonly skills: readonly string[];
}

/** What a client says about the searches of a request; null leaves it to the operator. */
export interface SearchOptions {
  /** Where it was asked for, for error messages. */
  readonly param: string;
  /** Asked for by a vendor's own name: without an engine here it stays the vendor's business. */
  readonly isVendors: boolean;
  readonly callsMax: number | null;
  readonly resultsMax: number | null;
  readonly allowedDomains: readonly string[];
  readonly excludedDomains: readonly string[];
  /** The client's names for these domains, for error messages. */
  readonly allowedName: string;
  readonly excludedName: string;
  /** Where the request has wishes about searches that are not followed here. */
  readonly unmet: readonly string[];
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

/** An address that a client gave; that of a picture may be a `data:` URL. */
export interface AddressInput {
  /** Where it stands in the request, for the error message. */
  readonly param: string;
  readonly url: string;
}

/** What only an account of the tenant's own may be asked for. */
export interface OwnAccountNeed {
  readonly param: string;
  /** In words that follow the field's name. */
  readonly why: string;
}

export type OperationName = 'chat' | 'embeddings' | 'speech' | 'transcription' | 'images';

export const sortKeys = ['price', 'latency', 'throughput'] as const;
export type SortKey = (typeof sortKeys)[number];

/** The client's wishes about providers; docs/providers.md explains them. */
export interface RoutePreferences {
  readonly order: readonly string[];
  readonly only: readonly string[] | null;
  readonly ignore: readonly string[];
  readonly allowFallbacks: boolean;
  readonly sort: SortKey | null;
  /** `sort`: order all candidates of all models together. */
  readonly route: 'fallback' | 'sort';
  /** Dollars per million tokens. */
  readonly maxPrice: { readonly prompt: number | null; readonly completion: number | null };
  readonly requireParameters: boolean;
}

/** The preferences of a client that says nothing about providers. */
export const noPreferences: RoutePreferences = {
  order: [],
  only: null,
  ignore: [],
  allowFallbacks: true,
  sort: null,
  route: 'fallback',
  maxPrice: { prompt: null, completion: null },
  requireParameters: false,
};
