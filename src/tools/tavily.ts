import { isObject } from '../core/json.ts';
import type { EngineFormat } from './search.ts';

/** Tavily: https://docs.tavily.com/documentation/api-reference/endpoint/search. */
export const tavily: EngineFormat = {
  write({ url, apiKey, query, count, allowedDomains, excludedDomains }) {
    return {
      method: 'POST',
      url: `${url}/search`,
      headers: {
        'content-type': 'application/json',
        ...authorised(apiKey),
      },
      body: JSON.stringify({
        query,
        max_results: count,
        search_depth: 'basic',
        ...(allowedDomains.length > 0 ? { include_domains: allowedDomains } : {}),
        ...(excludedDomains.length > 0 ? { exclude_domains: excludedDomains } : {}),
      }),
    };
  },
  read(answer) {
    if (!isObject(answer) || !Array.isArray(answer.results)) return undefined;
    return answer.results.filter(isObject).map(({ title, url, content, published_date }) => ({
      title,
      url,
      snippet: content,
      date: published_date,
    }));
  },
  // https://docs.tavily.com/documentation/api-reference/endpoint/usage
  freeCall: {
    write: ({ url, apiKey }) => ({
      method: 'GET',
      url: `${url}/usage`,
      headers: authorised(apiKey),
    }),
  },
};

function authorised(apiKey: string | null): Record<string, string> {
  return apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
}
