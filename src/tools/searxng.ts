import { fieldsOf, isObject, itemsOf } from '../core/json.ts';
import { withSiteWords } from './domains.ts';
import type { EngineFormat } from './search.ts';

/**
 * SearXNG, self-hosted: https://docs.searxng.org/dev/search_api.html. It has no keys of its own: a
 * configured key is for the proxy in front of it. SearXNG decides how many results come.
 */
export const searxng: EngineFormat = {
  write({ url, apiKey, query, allowedDomains, excludedDomains }) {
    const q = withSiteWords(query, allowedDomains, excludedDomains);
    return {
      method: 'GET',
      url: `${url}/search?${new URLSearchParams({ q, format: 'json' })}`,
      headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
    };
  },
  read(answer) {
    if (!isObject(answer) || !Array.isArray(answer.results)) return undefined;
    return answer.results.filter(isObject).map(({ title, url, content, publishedDate }) => ({
      title,
      url,
      snippet: content,
      date: publishedDate,
    }));
  },
  // When the engines behind SearXNG are blocked or too slow, it reports success without results.
  faultIn(answer) {
    const { results, unresponsive_engines: silent } = fieldsOf(answer);
    const isNothing = Array.isArray(results) && results.length === 0;
    if (!isNothing || itemsOf(silent).length === 0) return undefined;
    return 'The engines that were asked gave no answer.';
  },
  freeCall: {
    write: (place) => searxng.write({ ...place, ...smallest }),
    // By default SearXNG gives no JSON.
    opening: 'Add json to search.formats in its settings.yml.',
  },
};

const smallest = { query: 'tollgate', count: 1, allowedDomains: [], excludedDomains: [] };
