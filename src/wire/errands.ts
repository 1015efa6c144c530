import type { Errand } from '../call.ts';
import type { Config } from '../config/config.ts';
import type { Caller } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';
import { parseUsd } from '../core/money.ts';
import type { Conversation } from '../dialects/dialect.ts';
import { ChatErrand } from '../operations/chat.ts';
import { SearchingErrand, type WebSearchParts } from '../operations/searching.ts';
import { HttpSearch } from '../tools/http-search.ts';
import { SearchNotes } from '../tools/search-notes.ts';
import { callOperatorServer } from '../upstream/operator-call.ts';
import type { Skills } from './tools.ts';

export type ErrandOf = (conversation: Conversation, caller: Caller) => Errand | Promise<Errand>;

/** What a conversation becomes: with the skills it names, and with searches if it wants them. */
export function makeErrandOf(config: Config, skills: Skills): ErrandOf {
  const search = webSearchOf(config);
  const furnish = (conversation: Conversation, caller: Caller): Errand => {
    const wish = conversation.ask.search;
    if (wish === null) return new ChatErrand(conversation);
    if (!search && wish.isVendors) return new ChatErrand(conversation);
    if (search) return new SearchingErrand(conversation, wish, caller.tenantId, search);
    const message = 'Web search is not set up here: the operator must configure tools.web_search.';
    throw invalidRequest(message, wish.param);
  };
  return (conversation, caller) => {
    if (conversation.ask.skills.length === 0) return furnish(conversation, caller);
    return instructed(conversation, caller, skills).then((it) => furnish(it, caller));
  };
}

async function instructed(
  conversation: Conversation,
  { tenantId }: Caller,
  { shelf, apply }: Skills,
): Promise<Conversation> {
  const found = await shelf.resolve(tenantId, conversation.ask.skills);
  return conversation.instruct(apply('', found));
}

/** Undefined when no engine is configured. */
function webSearchOf({ webSearch, creditsPerUsd }: Config): WebSearchParts | undefined {
  if (webSearch === null) return undefined;
  return {
    engine: new HttpSearch(webSearch, callOperatorServer),
    callsMax: webSearch.callsMax,
    resultsMax: webSearch.resultsMax,
    usdPerSearch: parseUsd(webSearch.usdPerSearch) ?? 0n,
    creditsPerUsd,
    notes: new SearchNotes(),
  };
}
