import type { Problem } from '../core/explain.ts';
import { Secret } from '../core/secret.ts';
import type { WebSearch } from './config.ts';
import type { ConfigFile } from './schema.ts';
import { isSendable, unsendableKey } from './sendable.ts';

/** The default address of each engine, and whether it needs a key. */
const engines: Readonly<
  Record<WebSearch['engine'], { readonly url: string | null; readonly needsKey: boolean }>
> = {
  // SearXNG is self-hosted, so there is no default address.
  searxng: { url: null, needsKey: false },
  brave: { url: 'https://api.search.brave.com', needsKey: true },
  tavily: { url: 'https://api.tavily.com', needsKey: true },
};

/** `tools.web_search` of the file; null if it is absent or has problems. */
export function readWebSearch(file: ConfigFile, problems: Problem[]): WebSearch | null {
  const search = file.tools?.web_search;
  if (!search) return null;
  const refuse = (field: string, message: string) => {
    problems.push({ path: `tools.web_search.${field}`, message });
    return null;
  };
  const { engine } = search;
  if (engine === undefined) return refuse('engine', 'is required');
  const url = search.url ?? engines[engine].url;
  if (url === null) return refuse('url', `is required for ${engine}`);
  // Paths and parameters are appended to the address, and a password belongs into api_key.
  if (/[?#]|\/\/[^/]*@/.test(url)) return refuse('url', 'must have no user, query or fragment');
  const apiKey = search.api_key?.trim();
  if (engines[engine].needsKey && !apiKey) return refuse('api_key', `is required for ${engine}`);
  if (apiKey && !isSendable('authorization', apiKey)) return refuse('api_key', unsendableKey);
  return {
    engine,
    url: url.replace(/\/+$/, ''),
    apiKey: apiKey ? new Secret(apiKey) : null,
    usdPerSearch: search.usd_per_search ?? '0.005',
    callsMax: search.calls_max ?? 5,
    resultsMax: search.results_max ?? 5,
  };
}
