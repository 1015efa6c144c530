/** The port to a search engine, and the words that all of its parts share. */

export interface SearchQuery {
  /** In a model's own words. */
  readonly query: string;
  readonly resultsMax: number;
  /** As `readDomain` spells them; none given allows all. */
  readonly allowedDomains?: readonly string[];
  readonly excludedDomains?: readonly string[];
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
}

/** One page, cleaned: each text is one line of bounded length. Still the words of a stranger. */
export interface SearchResult {
  readonly title: string;
  /** Always http or https, without user or password. */
  readonly url: string;
  readonly snippet: string;
  /** `2026-11-15`, where the engine knows it. */
  readonly date?: string;
}

/** Only `found` is charged, even when no result fits: the engine did its work. */
export type SearchOutcome =
  | { readonly kind: 'found'; readonly results: readonly SearchResult[] }
  /** One plain sentence that a model may read: no addresses, no secrets. */
  | { readonly kind: 'failed'; readonly message: string };

export interface SearchEngine {
  /** Never rejects: a search that fails is told to the model, which answers without it. */
  search(query: SearchQuery): Promise<SearchOutcome>;
}

/** A call to the engine, ready to be sent. */
export interface EngineRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The wire format of one engine: pure, in both directions. */
export interface EngineFormat {
  write(ask: EngineAsk): EngineRequest;
  /** Whatever looks like a result, unchecked; undefined when the answer has another shape. */
  read(answer: unknown): readonly RawResult[] | undefined;
  /** What the answer itself says went wrong, in one sentence that a model may read. */
  faultIn?(answer: unknown): string | undefined;
  /** A call that costs nothing and needs the key; absent where each call is paid for. */
  readonly freeCall?: FreeCall;
}

interface FreeCall {
  write(place: EnginePlace): EngineRequest;
  /** How to open the engine, in one sentence, where it refuses the call though it wants no key. */
  readonly opening?: string;
}

interface EnginePlace {
  /** Where the engine lives, without a slash at the end. */
  readonly url: string;
  readonly apiKey: string | null;
}

interface EngineAsk extends EnginePlace {
  readonly query: string;
  readonly count: number;
  readonly allowedDomains: readonly string[];
  readonly excludedDomains: readonly string[];
}

export interface RawResult {
  readonly title: unknown;
  readonly url: unknown;
  readonly snippet: unknown;
  readonly date: unknown;
}
