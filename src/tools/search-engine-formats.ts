import { fieldsOf, isObject, itemsOf } from '../core/json.ts';
import { type EngineFormat, withSiteOperators } from './search-engine.ts';

/**
 * SearXNG, self-hosted: https://docs.searxng.org/dev/search_api.html. It has no API keys; a
 * configured key is for a proxy in front of it. The number of results can't be requested.
 */
export const searxng: EngineFormat = {
  write({ url, apiKey, query, allowedDomains, excludedDomains }) {
    const q = withSiteOperators(query, allowedDomains, excludedDomains);
    return {
      method: 'GET',
      url: `${url}/search?${new URLSearchParams({ q, format: 'json' })}`,
      headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
    };
  },
  read(body) {
    if (!isObject(body) || !Array.isArray(body.results)) return undefined;
    return body.results.filter(isObject).map(({ title, url, content, publishedDate }) => ({
      title,
      url,
      snippet: content,
      date: publishedDate,
    }));
  },
  // If the engines behind SearXNG are blocked or too slow, it reports success without results.
  errorIn(body) {
    const { results, unresponsive_engines: unresponsive } = fieldsOf(body);
    const isEmpty = Array.isArray(results) && results.length === 0;
    if (!isEmpty || itemsOf(unresponsive).length === 0) return undefined;
    return 'None of the engines behind SearXNG responded.';
  },
  freeCall: {
    write: (endpoint) => searxng.write({ ...endpoint, ...minimalQuery }),
    // By default, SearXNG doesn't return JSON.
    setupHint: 'Add json to search.formats in its settings.yml.',
  },
};

const minimalQuery = { query: 'tollgate', count: 1, allowedDomains: [], excludedDomains: [] };

/** Brave Search: https://api-dashboard.search.brave.com/app/documentation/web-search. */
export const brave: EngineFormat = {
  write({ url, apiKey, query, count, allowedDomains, excludedDomains }) {
    const params = {
      q: withSiteOperators(query, allowedDomains, excludedDomains),
      count: String(count),
      result_filter: 'web',
      text_decorations: 'false',
    };
    return {
      method: 'GET',
      url: `${url}/res/v1/web/search?${new URLSearchParams(params)}`,
      headers: apiKey === null ? {} : { 'x-subscription-token': apiKey },
    };
  },
  read(body) {
    if (!isObject(body)) return undefined;
    // The section is missing if a query has no results.
    if (body.web === undefined) return isObject(body.query) ? [] : undefined;
    if (!isObject(body.web) || !Array.isArray(body.web.results)) return undefined;
    return body.web.results.filter(isObject).map(({ title, url, description, page_age }) => ({
      title: plainText(title),
      url,
      snippet: plainText(description),
      date: page_age,
    }));
  },
};

const entities: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#x27;': "'",
  '&#39;': "'",
  '&nbsp;': ' ',
  '&amp;': '&',
};

/** Converts HTML to text. Matches may be emphasized even though the request disables it. */
function plainText(html: unknown): unknown {
  if (typeof html !== 'string') return html;
  return html
    .replace(/<\/?(?:strong|b|em|i)>/g, '')
    .replace(/&(?:lt|gt|quot|#x27|#39|nbsp|amp);/g, (entity) => entities[entity] ?? entity);
}

/** Tavily: https://docs.tavily.com/documentation/api-reference/endpoint/search. */
export const tavily: EngineFormat = {
  write({ url, apiKey, query, count, allowedDomains, excludedDomains }) {
    return {
      method: 'POST',
      url: `${url}/search`,
      headers: {
        'content-type': 'application/json',
        ...authorizationHeader(apiKey),
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
  read(body) {
    if (!isObject(body) || !Array.isArray(body.results)) return undefined;
    return body.results.filter(isObject).map(({ title, url, content, published_date }) => ({
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
      headers: authorizationHeader(apiKey),
    }),
  },
};

function authorizationHeader(apiKey: string | null): Record<string, string> {
  return apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
}
