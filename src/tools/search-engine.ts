import { searchQueryMax, searchTermsMax } from '../core/bounds.ts';
import type { ServerCall } from '../core/call-configured-server.ts';

export interface SearchQuery {
  /** As written by the model. */
  readonly query: string;
  readonly resultsMax: number;
  /** In `readDomain`'s format. If the list is empty, all domains are allowed. */
  readonly allowedDomains?: readonly string[];
  readonly excludedDomains?: readonly string[];
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** One page. Each text is one line of bounded length, but still untrusted. */
export interface SearchResult {
  readonly title: string;
  /** Always http or https, without user or password. */
  readonly url: string;
  readonly snippet: string;
  /** For example `2026-11-15`, if the engine reports it. */
  readonly date?: string;
}

/** Only `found` is charged, even if the filters removed all results. */
export type SearchOutcome =
  | { readonly kind: 'found'; readonly results: readonly SearchResult[] }
  /** `message` is a sentence for the model, without URLs and secrets. */
  | { readonly kind: 'failed'; readonly message: string };

export interface SearchEngine {
  /** Never rejects. The model is informed of a failure and answers without results. */
  search(query: SearchQuery): Promise<SearchOutcome>;
}

/** The wire format of one engine. */
export interface EngineFormat {
  write(query: EngineQuery): ServerCall;
  /** Returns unchecked results, or undefined if the response has an unknown format. */
  read(body: unknown): readonly RawResult[] | undefined;
  /** Returns the error that a response reports, as a sentence for the model. */
  errorIn?(body: unknown): string | undefined;
  /**
   * A call that the engine doesn't charge for and that checks whether the key and the setup work.
   * Absent if every call is charged.
   */
  readonly freeCall?: FreeCall;
}

interface FreeCall {
  write(endpoint: EngineEndpoint): ServerCall;
  /** How to configure an engine that rejects the call although it needs no key. */
  readonly setupHint?: string;
}

interface EngineEndpoint {
  /** The engine's base URL, without a slash at the end. */
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

/**
 * Normalizes a domain: `Https://Docs.Example.com/a` and `*.docs.example.com` both become
 * `docs.example.com`. Returns undefined for anything else.
 */
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

/** Returns whether a URL passes the filters. A domain includes its subdomains. */
export function matchesDomains(
  url: string,
  allowed: readonly string[],
  excluded: readonly string[],
): boolean {
  const host = new URL(url).hostname.replace(/\.$/, '');
  const matches = (domain: string) => host === domain || host.endsWith(`.${domain}`);
  return (allowed.length === 0 || allowed.some(matches)) && !excluded.some(matches);
}

/**
 * Adds filters to the query, for engines without filter parameters. Adds as many as fit, because
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
    // Add all allowed domains or none. With only some of them, the query would miss results from
    // the others.
    if (isQuery(longer)) result = longer;
  };
  if (allowed.length > 0) append(allowed.map((domain) => `site:${domain}`).join(' OR '));
  for (const domain of excluded) append(`-site:${domain}`);
  return result;
}

function isQuery(text: string): boolean {
  return text.length <= searchQueryMax && text.split(' ').length <= searchTermsMax;
}

/** Returns the ASCII form of a host: `münchen.example` is `xn--mnchen-3ya.example`. */
function asciiOf(host: string): string | undefined {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined;
}
