/** What every request asks of the steps between its client and an upstream. */
export interface Ask {
  readonly operation: OperationName;
  /** The fallback chain: `model`, then `models`, duplicates dropped. */
  readonly models: readonly string[];
  readonly preferences: RoutePreferences;
  /** Whether the answer comes as a stream of events. */
  readonly stream: boolean;
  /** Optional parameters present; told only for `provider.require_parameters`. */
  readonly parameters: readonly string[];
  /** The end user, as the client names them. */
  readonly user: string | null;
  /** What an upstream may fetch because of it, but for the pictures of a chat. */
  readonly addresses?: readonly AddressInput[];
  /** The pictures of a chat. */
  readonly images?: readonly AddressInput[];
  /** The first thing in it that the operator's accounts are not asked for. */
  readonly ownAccount?: OwnAccountNeed | undefined;
}

/** An address that a client gave. */
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

export type OperationName = 'chat' | 'embeddings' | 'speech' | 'transcription' | 'images' | 'job';

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

/** Those of a client that says nothing about providers. */
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
