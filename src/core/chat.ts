/**
 * What a chat request asks of the steps between the client's dialect and the upstream's: enough
 * to route, bound, hold and log it, and nothing of its words.
 */
export interface ChatAsk {
  /** The fallback chain: `model`, then `models`, duplicates dropped. */
  readonly models: readonly string[];
  readonly preferences: RoutePreferences;
  readonly stream: boolean;
  /** The most output the client asked for; null when it set no limit. */
  readonly outputTokensMax: number | null;
  readonly choices: number;
  readonly needs: ModelNeeds;
  /** Optional parameters present, for `provider.require_parameters`. */
  readonly parameters: readonly string[];
  /** Bounds the input tokens: no tokenizer makes more tokens than there are bytes. */
  readonly inputBytes: number;
  readonly images: readonly ImageInput[];
  readonly user: string | null;
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

export interface ImageInput {
  /** Where it stands in the request, for the error message. */
  readonly param: string;
  readonly url: string;
}

export const sortKeys = ['price', 'latency', 'throughput'] as const;
export type SortKey = (typeof sortKeys)[number];

/** The client's wishes about providers; see decisions on routing in docs. */
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
