/** What the pipeline stages need to know about a request. */
export interface RequestInfo {
  readonly operationName: OperationName;
  /**
   * The fallback chain: `model`, then `models`, without duplicates. Once `resolveModels` has run,
   * names without a brand are replaced by their aliases.
   */
  models: readonly string[];
  /** Models that the key may use because its allow-list has the requested alias. */
  granted?: readonly string[];
  readonly preferences: RoutePreferences;
  /** True if the answer is a stream of events. */
  readonly stream: boolean;
  /** The optional parameters of the request. Filled only with `provider.require_parameters`. */
  readonly parameters: readonly string[];
  /** The end user's ID, as the client sent it. */
  readonly user: string | null;
  /** The client's `prompt_cache_key`. */
  readonly promptCacheKey?: string | null;
  /** URLs that the provider may fetch, except the images of a chat. */
  readonly urls?: readonly UrlInput[];
  /** The images of a chat. */
  readonly images?: readonly UrlInput[];
  /** The first field that requires the tenant's own provider key (BYOK). */
  readonly ownAccount?: OwnAccountRequirement | undefined;
}

/** What the pipeline stages need to know about a chat request, without its content. */
export interface ChatRequestInfo extends RequestInfo {
  readonly operationName: 'chat';
  /** The client's limit on output tokens, or null if it set none. */
  readonly outputTokensMax: number | null;
  readonly choices: number;
  readonly needs: ModelNeeds;
  /** An upper bound on the input tokens: no tokenizer yields more tokens than bytes. */
  readonly inputBytes: number;
  /** True if some of the input requests a cache lifetime of 1 hour. */
  readonly usesLongCacheTtl: () => boolean;
  readonly images: readonly UrlInput[];
  /** Null if the client requested no web searches. */
  readonly search: SearchOptions | null;
  /** Names of the skills to add, as the client wrote them. */
  readonly skills: readonly string[];
}

/** A client's options for web searches. Null means the operator's setting. */
export interface SearchOptions {
  /** The field that requests searches, for error messages. */
  readonly param: string;
  /** True if a vendor's own tool was requested, which searches if no engine is configured here. */
  readonly isProviderTool: boolean;
  readonly callsMax: number | null;
  readonly resultsMax: number | null;
  readonly allowedDomains: readonly string[];
  readonly excludedDomains: readonly string[];
  /** The client's field names of these lists, for error messages. */
  readonly allowedName: string;
  readonly excludedName: string;
  /** Fields with search options that the gateway doesn't support. */
  readonly unsupported: readonly string[];
}

/** Capabilities that the model needs for this request. */
export interface ModelNeeds {
  readonly tools: boolean;
  readonly json: boolean;
  readonly images: boolean;
  readonly audio: boolean;
  readonly files: boolean;
  /** The request has a thinking budget in tokens, which adaptive models reject. */
  readonly thinkingBudget: boolean;
}

/** A URL from the client. An image's URL can be a `data:` URL. */
export interface UrlInput {
  /** The request field that contains the URL, for error messages. */
  readonly param: string;
  readonly url: string;
}

/** A field that requires the tenant's own provider key. */
export interface OwnAccountRequirement {
  readonly param: string;
  /** The reason, as a phrase that follows the field's name. */
  readonly why: string;
}

export type OperationName = 'chat' | 'embeddings' | 'speech' | 'transcription' | 'images';

export const sortKeys = ['price', 'latency', 'throughput'] as const;
export type SortKey = (typeof sortKeys)[number];

/** The client's `provider` preferences; see docs/providers.md. */
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
  /** Excludes offers that would not receive every field of the request. */
  readonly lossless: boolean;
}

/** The preferences of a request without `provider`. */
export const noPreferences: RoutePreferences = {
  order: [],
  only: null,
  ignore: [],
  allowFallbacks: true,
  sort: null,
  route: 'fallback',
  maxPrice: { prompt: null, completion: null },
  requireParameters: false,
  lossless: false,
};
