import type { WebSearch } from '../config/config.ts';
import { boundedCall, readBounded } from '../core/bounded-call.ts';
import {
  searchAnswerBytesMax,
  searchMsMax,
  searchQueryMax,
  searchResultsMax,
  searchWordsMax,
} from '../core/bounds.ts';
import { parseJson } from '../core/json.ts';
import { brave } from './brave.ts';
import { cleanResult, cleanText } from './clean-result.ts';
import { isWithin } from './domains.ts';
import type {
  EngineFormat,
  EngineRequest,
  RawResult,
  SearchEngine,
  SearchOutcome,
  SearchQuery,
  SearchResult,
} from './search.ts';
import { searxng } from './searxng.ts';
import { tavily } from './tavily.ts';

const formats: Readonly<Record<WebSearch['engine'], EngineFormat>> = { searxng, brave, tavily };

/** A call that costs nothing and shows whether the key is good; undefined where there is none. */
export function freeCallTo({ engine, url, apiKey }: WebSearch) {
  const { freeCall } = formats[engine];
  if (!freeCall) return undefined;
  const request = freeCall.write({ url, apiKey: apiKey?.reveal() ?? null });
  return { request, opening: freeCall.opening };
}

/** Sends one call to an address of the operator's choice, and follows no redirect. */
type SendToEngine = (request: EngineRequest, signal: AbortSignal) => Promise<Response>;

/** Told what is wrong when searches begin to fail, and null when they succeed again. */
type OnChange = (fault: string | null) => void;

/**
 * A search engine reached over HTTP: asked in its own format, and nothing it answers is trusted.
 */
export class HttpSearch implements SearchEngine {
  readonly #settings: WebSearch;
  readonly #send: SendToEngine;
  readonly #onChange: OnChange;
  readonly #patienceMs: number;
  #isFailing = false;

  constructor(
    settings: WebSearch,
    send: SendToEngine,
    onChange: OnChange,
    patienceMs = searchMsMax,
  ) {
    this.#settings = settings;
    this.#send = send;
    this.#onChange = onChange;
    this.#patienceMs = patienceMs;
  }

  async search(search: SearchQuery): Promise<SearchOutcome> {
    const words = cleanText(search.query, searchQueryMax).split(' ');
    const query = words.slice(0, searchWordsMax).join(' ');
    if (query === '') return failed('The query is empty.');
    const outcome = await this.#find(query, search);
    if (!search.signal.aborted) this.#note(outcome);
    return outcome;
  }

  /** Clients hear of a failure only through the model, so the operator is told. */
  #note(outcome: SearchOutcome): void {
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
    const text = await this.#ask(request, signal);
    if (typeof text !== 'string') return text;
    const answer = parseJson(text);
    const fault = formats[engine].faultIn?.(answer);
    if (fault !== undefined) return failed(fault);
    const raw = formats[engine].read(answer);
    if (!raw) return failed('The search engine gave an answer that makes no sense.');
    const fits = (result: SearchResult) => isWithin(result.url, allowedDomains, excludedDomains);
    return { kind: 'found', results: chooseResults(raw, fits, resultsMax) };
  }

  #ask(request: EngineRequest, client: AbortSignal): Promise<string | SearchOutcome> {
    return boundedCall(this.#patienceMs, client, async (over) => {
      try {
        const response = await this.#send(request, over);
        const misfit = misfitOf(response);
        if (misfit !== undefined) return failed(misfit);
        const text = await readBounded(response, searchAnswerBytesMax);
        return text ?? failed('The search engine gave an answer that is too long.');
      } catch {
        if (client.aborted) return failed('The search was stopped.');
        const why = over.aborted ? 'did not answer in time' : 'could not be reached';
        return failed(`The search engine ${why}.`);
      }
    });
  }
}

function misfitOf({ status, headers }: Response): string | undefined {
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
  fits: (result: SearchResult) => boolean,
  resultsMax: number,
): readonly SearchResult[] {
  const chosen = new Map<string, SearchResult>();
  for (const one of raw) {
    if (chosen.size >= resultsMax) break;
    const result = cleanResult(one);
    if (result && fits(result) && !chosen.has(result.url)) chosen.set(result.url, result);
  }
  return [...chosen.values()];
}

function failed(message: string): SearchOutcome {
  return { kind: 'failed', message };
}
