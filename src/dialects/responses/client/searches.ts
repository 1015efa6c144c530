/** Shows the gateway's web searches as OpenAI shows its own. */
import type { WebSearch } from '../../../core/answer.ts';
import { fieldsOf, textOf } from '../../../core/json.ts';
import type { AnyItem } from './input-items.ts';

/** OpenAI's IDs have the same first part, and no underscore after it. */
export const searchIdPrefix = 'ws_tg';

/** The `include` value for the URLs of the pages that a search found. */
export const searchSources = 'web_search_call.action.sources';

export type SearchStatus = 'in_progress' | 'completed' | 'failed';

export function writeSearch(
  id: string,
  { query, pages }: WebSearch,
  status: SearchStatus,
  showsSources: boolean,
): object {
  const found = status === 'in_progress' ? [] : pages;
  const sources = found.map(({ url }) => ({ type: 'url', url }));
  const action = { type: 'search', query, queries: [query], ...(showsSources ? { sources } : {}) };
  return { id, type: 'web_search_call', status, action };
}

/** True for a search of an earlier answer, which only the client needs. OpenAI doesn't know it. */
export function isGatewaySearch(item: AnyItem): boolean {
  return (
    item.type === 'web_search_call' && textOf(fieldsOf(item).id).startsWith(`${searchIdPrefix}_`)
  );
}
