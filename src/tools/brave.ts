import { isObject } from '../core/json.ts';
import { withSiteWords } from './domains.ts';
import type { EngineFormat } from './search.ts';

/** Brave Search: https://api-dashboard.search.brave.com/app/documentation/web-search. */
export const brave: EngineFormat = {
  write({ url, apiKey, query, count, allowedDomains, excludedDomains }) {
    const words = {
      q: withSiteWords(query, allowedDomains, excludedDomains),
      count: String(count),
      result_filter: 'web',
      text_decorations: 'false',
    };
    return {
      method: 'GET',
      url: `${url}/res/v1/web/search?${new URLSearchParams(words)}`,
      headers: apiKey === null ? {} : { 'x-subscription-token': apiKey },
    };
  },
  read(answer) {
    if (!isObject(answer)) return undefined;
    // The section is missing when a query has no hits.
    if (answer.web === undefined) return isObject(answer.query) ? [] : undefined;
    if (!isObject(answer.web) || !Array.isArray(answer.web.results)) return undefined;
    return answer.web.results.filter(isObject).map(({ title, url, description, page_age }) => ({
      title: plain(title),
      url,
      snippet: plain(description),
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

/** Texts are HTML: hits may be emphasised though we ask for none, and characters are escaped. */
function plain(html: unknown): unknown {
  if (typeof html !== 'string') return html;
  return html
    .replace(/<\/?(?:strong|b|em|i)>/g, '')
    .replace(/&(?:lt|gt|quot|#x27|#39|nbsp|amp);/g, (entity) => entities[entity] ?? entity);
}
