import type { WebSearch } from '../config/config.ts';
import {
  searchAnswerBytesMax,
  searchMsMax,
  searchQueryMax,
  searchResultsMax,
  searchTermsMax,
} from '../core/bounds.ts';
import { boundedCall, readBounded } from '../core/deadlines.ts';
import { parseJson } from '../core/json.ts';
import { brave, searxng, tavily } from './engine-formats.ts';
import {
  type EngineFormat,
  type EngineRequest,
  matchesDomains,
  type RawResult,
  type SearchEngine,
  type SearchOutcome,
  type SearchQuery,
  type SearchResult,
} from './search-engine.ts';

const formats: Readonly<Record<WebSearch['engine'], EngineFormat>> = { searxng, brave, tavily };

/** A call that costs nothing and shows whether the key is good; undefined where there is none. */
export function freeCallTo({ engine, url, apiKey }: WebSearch) {
  const { freeCall } = formats[engine];
  if (!freeCall) return undefined;
  const request = freeCall.write({ url, apiKey: apiKey?.reveal() ?? null });
  return { request, setupHint: freeCall.setupHint };
}

/** Sends one call to an address of the operator's choice, and follows no redirect. */
type SendToEngine = (request: EngineRequest, signal: AbortSignal) => Promise<Response>;

/** Told what is wrong when searches begin to fail, and null when they succeed again. */
type OnChange = (problem: string | null) => void;

/**
 * A search engine reached over HTTP: asked in its own format, and nothing it answers is trusted.
 */
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

  /** Clients hear of a failure only through the model, so the operator is told. */
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
    // Asks for more results where some are filtered out afterwards, so that enough are left.
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
    const answer = parseJson(text);
    const problem = formats[engine].errorIn?.(answer);
    if (problem !== undefined) return failed(problem);
    const raw = formats[engine].read(answer);
    if (!raw) return failed('The search engine gave an answer that makes no sense.');
    const isAllowed = (result: SearchResult) =>
      matchesDomains(result.url, allowedDomains, excludedDomains);
    return { kind: 'found', results: chooseResults(raw, isAllowed, resultsMax) };
  }

  #fetchText(request: EngineRequest, client: AbortSignal): Promise<string | SearchOutcome> {
    return boundedCall(this.#timeoutMs, client, async (timeoutSignal) => {
      try {
        const response = await this.#send(request, timeoutSignal);
        const problem = responseProblem(response);
        if (problem !== undefined) return failed(problem);
        const text = await readBounded(response, searchAnswerBytesMax);
        return text ?? failed('The search engine gave an answer that is too long.');
      } catch {
        if (client.aborted) return failed('The search was stopped.');
        const why = timeoutSignal.aborted ? 'did not answer in time' : 'could not be reached';
        return failed(`The search engine ${why}.`);
      }
    });
  }
}

function responseProblem({ status, headers }: Response): string | undefined {
  if (status === 401 || status === 403) return 'The search engine refused the gateway.';
  if (status === 429) return 'The search engine is asked too often right now.';
  if (status !== 200) return `The search engine failed with status ${status}.`;
  const type = headers.get('content-type')?.toLowerCase() ?? '';
  const isJson = /^application\/(?:[\w.+-]+\+)?json\b/.test(type);
  const isPlain = ['', 'identity'].includes(headers.get('content-encoding') ?? '');
  return isJson && isPlain ? undefined : 'The search engine gave an answer that is not JSON.';
}

/** The first result of each address, in the engine's order. */
function chooseResults(
  raw: readonly RawResult[],
  isAllowed: (result: SearchResult) => boolean,
  resultsMax: number,
): readonly SearchResult[] {
  const chosen = new Map<string, SearchResult>();
  for (const one of raw) {
    if (chosen.size >= resultsMax) break;
    const result = cleanResult(one);
    if (result && isAllowed(result) && !chosen.has(result.url)) chosen.set(result.url, result);
  }
  return [...chosen.values()];
}

function failed(message: string): SearchOutcome {
  return { kind: 'failed', message };
}

/** Makes the words of strangers safe to hand on: short, on one line, nothing hidden in them. */

const titleMax = 200;
const snippetMax = 2_000;
const urlMax = 2_000;

/**
 * Removed without a trace, since they only exist to deceive a reader: marks that turn the reading
 * direction, zero-width spaces, and the invisible alphabet in which text is smuggled to models.
 */
const directionMarks = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069';
const invisible = '\\u00ad\\u200b\\u2060-\\u2064\\u206a-\\u206f\\ufeff';
const hidden = new RegExp(`[${directionMarks}${invisible}\\u{e0000}-\\u{e007f}]`, 'gu');
const gaps = /[\p{Cc}\s\u2028\u2029]+/gu;

function cleanText(text: string, lengthMax: number): string {
  // Cut first, so that nothing below has to go through a megabyte.
  const clean = text
    .slice(0, lengthMax * 4)
    .toWellFormed()
    .replace(hidden, '')
    .replace(gaps, ' ')
    .trim();
  const points = [...clean];
  return points.length <= lengthMax ? clean : `${points.slice(0, lengthMax - 1).join('')}…`;
}

/** Undefined for a result without a web address; one without a title is known by its host. */
function cleanResult(raw: RawResult): SearchResult | undefined {
  const url = webAddress(raw.url);
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

function webAddress(value: unknown): URL | undefined {
  if (typeof value !== 'string' || value.length > urlMax || !URL.canParse(value)) return undefined;
  const url = new URL(value);
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:';
  // A user name can pose as the host: https://bank.example@evil.example.
  const isPlain = url.username === '' && url.password === '';
  return isWeb && isPlain && url.href.length <= urlMax ? url : undefined;
}

/** The engines write dates in several ways; the day is all that a model needs. */
function dayOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > 60) return undefined;
  // An ISO time without a zone would be read in the zone of this machine.
  const [day] = /^\d{4}-\d{2}-\d{2}/.exec(value) ?? [];
  const time = Date.parse(day ?? value);
  if (Number.isNaN(time)) return undefined;
  const iso = new Date(time).toISOString();
  return /^\d{4}-/.test(iso) ? iso.slice(0, 10) : undefined;
}
