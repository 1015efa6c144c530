import type { Operation } from '../../call.ts';
import type { Config } from '../../config/config.ts';
import { callConfiguredServer } from '../../core/call-configured-server.ts';
import type { Caller } from '../../core/caller.ts';
import { invalidRequest } from '../../core/errors.ts';
import type { ClientRequest } from '../../dialects/dialect.ts';
import { parseUsd } from '../../money/price/usd.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import { HttpSearch } from '../../tools/http-search.ts';
import { SearchNotes } from '../../tools/search-notes.ts';
import { skillInstructions } from '../../tools/skills/skill.ts';
import type { SkillResolver } from '../../tools/skills/skill-resolver.ts';
import { SearchOperation, type WebSearchDeps } from '../search/search-operation.ts';
import { ChatOperation } from './chat-operation.ts';

type CreateOperation = (
  clientRequest: ClientRequest,
  caller: Caller,
) => Operation | Promise<Operation>;

/** Returns a factory of chat operations that adds requested skills and web searches. */
export function createOperationFactory(
  config: Config,
  skills: Pick<SkillResolver, 'resolve'>,
  telemetry: Telemetry,
): CreateOperation {
  const search = webSearchOf(config, telemetry);
  const operationFor = (clientRequest: ClientRequest, caller: Caller): Operation => {
    const searchOptions = clientRequest.request.search;
    if (searchOptions === null || (!search && searchOptions.isProviderTool))
      return new ChatOperation(clientRequest);
    if (search) return new SearchOperation(clientRequest, searchOptions, caller.tenantId, search);
    const message =
      'Web search is not configured. The operator can set it up with tools.web_search.';
    throw invalidRequest(message, searchOptions.param);
  };
  return (clientRequest, caller) => {
    if (clientRequest.request.skills.length === 0) return operationFor(clientRequest, caller);
    return withSkills(clientRequest, caller, skills).then((request) =>
      operationFor(request, caller),
    );
  };
}

async function withSkills(
  clientRequest: ClientRequest,
  { tenantId }: Caller,
  skills: Pick<SkillResolver, 'resolve'>,
): Promise<ClientRequest> {
  const found = await skills.resolve(tenantId, clientRequest.request.skills);
  return clientRequest.withInstructions(skillInstructions(found));
}

/** Returns undefined if no search engine is configured. */
function webSearchOf(
  { webSearch, creditsPerUsd, billing }: Config,
  telemetry: Telemetry,
): WebSearchDeps | undefined {
  if (webSearch === null) return undefined;
  const reportFault = (fault: string | null) => telemetry.searchStateChanged(fault);
  return {
    engine: new HttpSearch(webSearch, callConfiguredServer, reportFault),
    callsMax: webSearch.callsMax,
    resultsMax: webSearch.resultsMax,
    usdPerSearch: parseUsd(webSearch.usdPerSearch) ?? 0n,
    creditsPerUsd,
    chargesAbandonedInput: billing.abandoned === 'input',
    notes: new SearchNotes(),
  };
}
