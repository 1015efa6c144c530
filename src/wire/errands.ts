import type { Errand } from '../call.ts';
import type { Config } from '../config/config.ts';
import type { Caller } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';
import { parseUsd } from '../core/money.ts';
import type { Conversation } from '../dialects/dialect.ts';
import type { ChatParts } from '../http/calls/chat.ts';
import { ChatErrand } from '../operations/chat.ts';
import { SearchingErrand, type WebSearchParts } from '../operations/search.ts';
import { HttpSearch } from '../tools/http-search.ts';
import { SearchNotes } from '../tools/search-notes.ts';
import { instructionsOf } from '../tools/skills/skill.ts';
import { callOperatorServer } from '../upstream/operator-call.ts';
import type { Skills } from './skills.ts';
import type { Telemetry } from './telemetry.ts';

/**
 * Makes the errand of a conversation: with the skills it names, and with searches if it wants them.
 */
export function makeErrandOf(
  config: Config,
  skills: Skills,
  telemetry: Telemetry,
): ChatParts['errandOf'] {
  const search = webSearchOf(config, telemetry);
  const errandFor = (conversation: Conversation, caller: Caller): Errand => {
    const wish = conversation.ask.search;
    if (wish === null || (!search && wish.isVendors)) return new ChatErrand(conversation);
    if (search) return new SearchingErrand(conversation, wish, caller.tenantId, search);
    const message = 'Web search is not set up here: the operator must configure tools.web_search.';
    throw invalidRequest(message, wish.param);
  };
  return (conversation, caller) => {
    if (conversation.ask.skills.length === 0) return errandFor(conversation, caller);
    return instructed(conversation, caller, skills).then((it) => errandFor(it, caller));
  };
}

async function instructed(
  conversation: Conversation,
  { tenantId }: Caller,
  { shelf }: Skills,
): Promise<Conversation> {
  const found = await shelf.resolve(tenantId, conversation.ask.skills);
  return conversation.instruct(instructionsOf(found));
}

/** Undefined when no engine is configured. */
function webSearchOf(
  { webSearch, creditsPerUsd }: Config,
  telemetry: Telemetry,
): WebSearchParts | undefined {
  if (webSearch === null) return undefined;
  const tell = (fault: string | null) => telemetry.searchChanged(fault);
  return {
    engine: new HttpSearch(webSearch, callOperatorServer, tell),
    callsMax: webSearch.callsMax,
    resultsMax: webSearch.resultsMax,
    usdPerSearch: parseUsd(webSearch.usdPerSearch) ?? 0n,
    creditsPerUsd,
    notes: new SearchNotes(),
  };
}
