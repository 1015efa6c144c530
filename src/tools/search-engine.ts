import { searchQueryMax, searchTermsMax } from '../core/bounds.ts';

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
  write(query: EngineQuery): EngineRequest;
  /** Whatever looks like a result, unchecked; undefined when the answer has another shape. */
  read(answer: unknown): readonly RawResult[] | undefined;
  /** What the answer itself says went wrong, in one sentence that a model may read. */
  errorIn?(answer: unknown): string | undefined;
  /** A call that costs nothing and needs the key; absent where each call is paid for. */
  readonly freeCall?: FreeCall;
}

interface FreeCall {
  write(endpoint: EngineEndpoint): EngineRequest;
  /** How to open the engine, in one sentence, where it refuses the call though it wants no key. */
  readonly setupHint?: string;
}

interface EngineEndpoint {
  /** Where the engine lives, without a slash at the end. */
  readonly url: string;
  readonly apiKey: string | null;
}

interface EngineQuery extends EngineEndpoint {
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

/** Filters by domain: read from what a client wrote, put into a query, applied to a result. */

/** `Https://Docs.Example.com/a` and `*.docs.example.com` as `docs.example.com`. */
export function readDomain(text: string): string | undefined {
  const host = text
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/^\*\./, '')
    .replace(/[/?#:].*$/s, '')
    .replace(/\.$/, '');
  return /^(?=.{1,253}$)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+$/u.test(host)
    ? asciiOf(host)
    : undefined;
}

/** A domain stands for itself and everything below it. */
export function matchesDomains(
  url: string,
  allowed: readonly string[],
  excluded: readonly string[],
): boolean {
  const host = new URL(url).hostname.replace(/\.$/, '');
  const fits = (domain: string) => host === domain || host.endsWith(`.${domain}`);
  return (allowed.length === 0 || allowed.some(fits)) && !excluded.some(fits);
}

/**
 * For engines that take filters only as words of the query. Adds as many as there is room for: the
 * results are filtered in any case.
 */
export function withSiteOperators(
  query: string,
  allowed: readonly string[],
  excluded: readonly string[],
): string {
  let result = query;
  const append = (addition: string) => {
    const longer = `${result} ${addition}`;
    // All allowed domains or none: some alone would hide the results of the others.
    if (isQuery(longer)) result = longer;
  };
  if (allowed.length > 0) append(allowed.map((domain) => `site:${domain}`).join(' OR '));
  for (const domain of excluded) append(`-site:${domain}`);
  return result;
}

function isQuery(text: string): boolean {
  return text.length <= searchQueryMax && text.split(' ').length <= searchTermsMax;
}

/** A host as results spell it: `münchen.example` is `xn--mnchen-3ya.example`. */
function asciiOf(host: string): string | undefined {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined;
}
