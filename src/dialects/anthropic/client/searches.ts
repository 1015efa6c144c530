/** Shows the gateway's web searches as Anthropic shows its own. */
import type { WebSearch } from '../../../core/answer.ts';
import { fieldsOf, textOf } from '../../../core/json.ts';
import { answerId } from '../../normalize/responses/identity.ts';
import type { AnyBlock } from './schema.ts';

/** Anthropic's IDs have the same first part, and no underscore after it. */
const idPrefix = 'srvtoolu_tg';

export interface SearchBlocks {
  readonly use: {
    readonly type: 'server_tool_use';
    readonly id: string;
    readonly name: string;
    readonly input: { readonly query: string };
  };
  readonly result: {
    readonly type: 'web_search_tool_result';
    readonly tool_use_id: string;
    readonly content: object;
  };
}

/** Counts and writes the searches of one answer. */
export class Searches {
  readonly #completionId: string;
  #shown = 0;
  #successful = 0;

  constructor(completionId: string) {
    this.#completionId = completionId;
  }

  add({ query, pages, error }: WebSearch): SearchBlocks {
    const id = answerId(idPrefix, this.#completionId) + this.#shown;
    this.#shown += 1;
    if (error === null) this.#successful += 1;
    const found = pages.map(({ url, title, date: page_age = null }) => {
      // Only Anthropic's servers can read the text of a page in this field.
      return { type: 'web_search_result', url, title, encrypted_content: '', page_age };
    });
    const error_code = error === 'limit' ? 'max_uses_exceeded' : 'unavailable';
    const content = error === null ? found : { type: 'web_search_tool_result_error', error_code };
    return {
      use: { type: 'server_tool_use', id, name: 'web_search', input: { query } },
      result: { type: 'web_search_tool_result', tool_use_id: id, content },
    };
  }

  /** The field to add to `usage`, if there were searches. */
  get usage(): object {
    if (this.#shown === 0) return {};
    const requests = { web_search_requests: this.#successful, web_fetch_requests: 0 };
    return { server_tool_use: requests };
  }
}

/** True for a search of an earlier answer, which only the client needs. Anthropic rejects it. */
export function isGatewaySearch(block: AnyBlock): boolean {
  const { type, id, tool_use_id: useId } = fieldsOf(block);
  if (type !== 'server_tool_use' && type !== 'web_search_tool_result') return false;
  return textOf(id ?? useId).startsWith(`${idPrefix}_`);
}
