import { Secret } from '../core/secret.ts';
import type { WebSearch } from './config.ts';
import type { ConfigProblem } from './problems.ts';
import type { ConfigFile } from './schema.ts';
import { invalidKeyMessage, isValidHeader } from './validation.ts';

/** The default URL of each search engine, and whether it needs a key. */
const engines: Readonly<
  Record<WebSearch['engine'], { readonly url: string | null; readonly needsKey: boolean }>
> = {
  // SearXNG is self-hosted, so there is no default URL.
  searxng: { url: null, needsKey: false },
  brave: { url: 'https://api.search.brave.com', needsKey: true },
  tavily: { url: 'https://api.tavily.com', needsKey: true },
};

/** Reads `tools.web_search`. Returns null if it is absent or has problems. */
export function readWebSearch(file: ConfigFile, problems: ConfigProblem[]): WebSearch | null {
  const search = file.tools?.web_search;
  if (!search) return null;
  const reject = (field: string, message: string) => {
    problems.push({ path: `tools.web_search.${field}`, message });
    return null;
  };
  const { engine } = search;
  if (engine === undefined) return reject('engine', 'is required');
  const url = search.url ?? engines[engine].url;
  if (url === null) return reject('url', `is required for ${engine}`);
  // Paths and parameters are appended to the URL, and a password belongs in api_key.
  if (/[?#]|\/\/[^/]*@/.test(url))
    return reject('url', 'must have no user name, query, or fragment');
  const apiKey = search.api_key?.trim();
  if (engines[engine].needsKey && !apiKey) return reject('api_key', `is required for ${engine}`);
  if (apiKey && !isValidHeader('authorization', apiKey))
    return reject('api_key', invalidKeyMessage);
  return {
    engine,
    url: url.replace(/\/+$/, ''),
    apiKey: apiKey ? new Secret(apiKey) : null,
    usdPerSearch: search.usd_per_search ?? '0.005',
    callsMax: search.calls_max ?? 5,
    resultsMax: search.results_max ?? 5,
  };
}
