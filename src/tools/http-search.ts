import type { WebSearch } from '../config/config.ts';
import {
  searchAnswerBytesMax,
  searchMsMax,
  searchQueryMax,
  searchResultsMax,
  searchTermsMax,
} from '../core/bounds.ts';
import type { ServerCall } from '../core/call-configured-server.ts';
import { boundedCall } from '../core/deadlines.ts';
import { parseJson } from '../core/json.ts';
import { readBounded } from '../core/read-bounded.ts';
import {
  type EngineFormat,
  matchesDomains,
  type RawResult,
  type SearchEngine,
  type SearchOutcome,
  type SearchQuery,
  type SearchResult,
} from './search-engine.ts';
import { brave, searxng, tavily } from './search-engine-formats.ts';

const formats: Readonly<Record<WebSearch['engine'], EngineFormat>> = { searxng, brave, tavily };

/** Returns the engine's free call, or undefined if it charges for every call. */
export function freeCallTo({ engine, url, apiKey }: WebSearch) {
  const { freeCall } = formats[engine];
  if (!freeCall) return undefined;
  const request = freeCall.write({ url, apiKey: apiKey?.reveal() ?? null });
  return { request, setupHint: freeCall.setupHint };
}

/** Sends a call to the configured server without following redirects. */
type SendToEngine = (request: ServerCall, signal: AbortSignal) => Promise<Response>;

/** Called with a message when searches begin to fail, and with null when they recover. */
type OnChange = (problem: string | null) => void;

/** Searches with an engine over HTTP, in its own format. The engine's responses are untrusted. */
export class HttpSearch implements SearchEngine {
  readonly #settings: WebSearch;
  readonly #send: SendToEngine;
  readonly #onChange: OnChange;
  readonly #timeoutMs: number;
  #isFailing = false;

  constructor(
    settings: WebSearch,
    send: SendToEngine,
    onChange: OnChange,
    timeoutMs = searchMsMax,
  ) {
    this.#settings = settings;
    this.#send = send;
    this.#onChange = onChange;
    this.#timeoutMs = timeoutMs;
  }

  async search(search: SearchQuery): Promise<SearchOutcome> {
    const terms = cleanText(search.query, searchQueryMax).split(' ');
    const query = terms.slice(0, searchTermsMax).join(' ');
    if (query === '') return failed('The query is empty.');
    const outcome = await this.#find(query, search);
    if (!search.signal.aborted) this.#reportChange(outcome);
    return outcome;
  }

  /** Reports failures to the operator, because clients see them only through the model. */
  #reportChange(outcome: SearchOutcome): void {
    const isFailing = outcome.kind === 'failed';
    if (isFailing === this.#isFailing) return;
    this.#isFailing = isFailing;
    this.#onChange(isFailing ? outcome.message : null);
  }

  async #find(query: string, search: SearchQuery): Promise<SearchOutcome> {
    const { allowedDomains = [], excludedDomains = [], signal } = search;
    const { engine, url, apiKey } = this.#settings;
    const resultsMax = Math.min(search.resultsMax, searchResultsMax);
    // Request more results if some will be filtered out, so that enough are left.
    const isFiltered = allowedDomains.length + excludedDomains.length > 0;
    const request = formats[engine].write({
      url,
      apiKey: apiKey?.reveal() ?? null,
      query,
      count: isFiltered ? searchResultsMax : resultsMax,
      allowedDomains,
      excludedDomains,
    });
    const text = await this.#fetchText(request, signal);
    if (typeof text !== 'string') return text;
    const body = parseJson(text);
    const problem = formats[engine].errorIn?.(body);
    if (problem !== undefined) return failed(problem);
    const raw = formats[engine].read(body);
    if (!raw) return failed('The search engine returned a response in an unknown format.');
    const isAllowed = (result: SearchResult) =>
      matchesDomains(result.url, allowedDomains, excludedDomains);
    return { kind: 'found', results: chooseResults(raw, isAllowed, resultsMax) };
  }

  #fetchText(request: ServerCall, clientSignal: AbortSignal): Promise<string | SearchOutcome> {
    return boundedCall(this.#timeoutMs, clientSignal, async (timeoutSignal) => {
      try {
        const response = await this.#send(request, timeoutSignal);
        const problem = responseProblem(response);
        if (problem !== undefined) return failed(problem);
        const text = await readBounded(response, searchAnswerBytesMax);
        return text ?? failed('The search engine returned a response that is too long.');
      } catch {
        if (clientSignal.aborted) return failed('The search was canceled.');
        const problem = timeoutSignal.aborted ? 'did not respond in time' : 'could not be reached';
        return failed(`The search engine ${problem}.`);
      }
    });
  }
}

function responseProblem({ status, headers }: Response): string | undefined {
  if (status === 401 || status === 403) return 'The search engine denied access.';
  if (status === 429) return 'The search engine is rate limited right now.';
  if (status !== 200) return `The search engine returned status ${status}.`;
  const type = headers.get('content-type')?.toLowerCase() ?? '';
  const isJson = /^application\/(?:[\w.+-]+\+)?json\b/.test(type);
  const isPlain = ['', 'identity'].includes(headers.get('content-encoding') ?? '');
  return isJson && isPlain ? undefined : 'The search engine returned a response that is not JSON.';
}

/** Returns the first result for each URL, in the engine's order. */
function chooseResults(
  raw: readonly RawResult[],
  isAllowed: (result: SearchResult) => boolean,
  resultsMax: number,
): readonly SearchResult[] {
  const chosen = new Map<string, SearchResult>();
  for (const candidate of raw) {
    if (chosen.size >= resultsMax) break;
    const result = cleanResult(candidate);
    if (result && isAllowed(result) && !chosen.has(result.url)) chosen.set(result.url, result);
  }
  return [...chosen.values()];
}

function failed(message: string): SearchOutcome {
  return { kind: 'failed', message };
}

// Makes untrusted text safe to forward: short, on one line, and without hidden characters.

const titleMax = 200;
const snippetMax = 2_000;
const urlMax = 2_000;

/**
 * These are removed, because they can deceive readers: marks that change the reading direction,
 * zero-width spaces, and the invisible tag characters used to hide text for models.
 */
const directionMarks = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069';
const invisible = '\\u00ad\\u200b\\u2060-\\u2064\\u206a-\\u206f\\ufeff';
const hidden = new RegExp(`[${directionMarks}${invisible}\\u{e0000}-\\u{e007f}]`, 'gu');
const gaps = /[\p{Cc}\s\u2028\u2029]+/gu;

function cleanText(text: string, lengthMax: number): string {
  // Truncate first, so that the steps below don't process a megabyte.
  const clean = text
    .slice(0, lengthMax * 4)
    .toWellFormed()
    .replace(hidden, '')
    .replace(gaps, ' ')
    .trim();
  const points = [...clean];
  return points.length <= lengthMax ? clean : `${points.slice(0, lengthMax - 1).join('')}…`;
}

/** Returns undefined for a result without a web URL. The title defaults to the host name. */
function cleanResult(raw: RawResult): SearchResult | undefined {
  const url = webUrl(raw.url);
  if (!url) return undefined;
  const date = dayOf(raw.date);
  return {
    title: textOf(raw.title, titleMax) || url.hostname,
    url: url.href,
    snippet: textOf(raw.snippet, snippetMax),
    ...(date === undefined ? {} : { date }),
  };
}

function textOf(value: unknown, lengthMax: number): string {
  return typeof value === 'string' ? cleanText(value, lengthMax) : '';
}

function webUrl(value: unknown): URL | undefined {
  if (typeof value !== 'string' || value.length > urlMax || !URL.canParse(value)) return undefined;
  const url = new URL(value);
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:';
  // A user name can look like the host: https://bank.example@evil.example.
  const isPlain = url.username === '' && url.password === '';
  return isWeb && isPlain && url.href.length <= urlMax ? url : undefined;
}

/** Returns the day of a date in any of the engines' formats. */
function dayOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > 60) return undefined;
  // An ISO time without a zone would be read in this machine's time zone.
  const [day] = /^\d{4}-\d{2}-\d{2}/.exec(value) ?? [];
  const time = Date.parse(day ?? value);
  if (Number.isNaN(time)) return undefined;
  const iso = new Date(time).toISOString();
  return /^\d{4}-/.test(iso) ? iso.slice(0, 10) : undefined;
}
