import { builtinCatalog } from '../../config/catalog/index.ts';
import type { Config, Provider, ProviderKey, WebSearch } from '../../config/config.ts';
import { freeCallTo } from '../../tools/http-search.ts';
import {
  hasFreeCall,
  keylessCall,
  type PingResult,
  pingProvider,
  pingServer,
} from '../../upstream/ping.ts';
import { type Check, checkTimeoutMs, type Finding, healthy, unhealthy } from './check.ts';

/** Returns a check for each provider that is called with the operator's keys. */
export function providerChecks(config: Config, waitMs = checkTimeoutMs): readonly Check[] {
  const shared = [...config.providers.values()].filter((provider) => provider.shared);
  if (shared.length === 0) return [{ name: 'providers', run: () => noProvider(config) }];
  return shared.flatMap((provider) => {
    const { name, keys } = provider;
    if (!keys) return [providerCheck(`provider ${name}`, provider, waitMs)];
    return keys
      .filter(({ isDisabled, until }) => !isDisabled && (until === null || until > Date.now()))
      .map((key) => providerCheck(`provider ${name}, key ${key.name}`, key.provider, waitMs, key));
  });
}

function providerCheck(name: string, provider: Provider, waitMs: number, key?: ProviderKey): Check {
  return {
    name,
    run: async () =>
      toFinding(await pingProvider(provider, waitMs), serverInfoOf(provider, waitMs, key)),
  };
}

export function searchChecks({ webSearch }: Config): readonly Check[] {
  if (!webSearch) return [];
  return [{ name: 'web search', run: () => searchFinding(webSearch) }];
}

function noProvider({ demo }: Config): Finding {
  const [first] = builtinCatalog.providers;
  const fix = `Set a provider's key, such as ${first?.api_key_env}.`;
  if (demo) return healthy(`No provider has a key, so the demo is on. ${fix}`);
  return unhealthy('No provider has a key, and the demo is off.', fix);
}

interface ServerInfo {
  readonly host: string;
  /** The option that sets the server's URL. */
  readonly urlOption: string;
  readonly hasKey: boolean;
  /** What to do if the server rejects the key, in one sentence. */
  readonly keyFix: string;
  /** Completes "It doesn't support …". Without a free call, only reachability is checked. */
  readonly freeCallName: string | undefined;
  readonly waitMs: number;
}

function serverInfoOf(provider: Provider, waitMs: number, key?: ProviderKey): ServerInfo {
  const { name, baseUrl, apiKey, workload, headers } = provider;
  const builtIn = key ? undefined : builtinCatalog.providers.find((one) => one.name === name);
  const option = key
    ? `the key ${key.name} in providers.${name}.api_keys`
    : `providers.${name}.api_key`;
  return {
    host: new URL(baseUrl).host,
    keyFix: setKey(builtIn ? `${builtIn.api_key_env} or ${option}` : option),
    urlOption: `providers.${name}.base_url`,
    hasKey: apiKey !== null || workload !== undefined || Object.keys(headers).length > 0,
    freeCallName: hasFreeCall(provider) ? 'listing models' : undefined,
    waitMs,
  };
}

async function searchFinding(search: WebSearch): Promise<Finding> {
  const freeCall = freeCallTo(search);
  const hasKey = search.apiKey !== null;
  const key = setKey('tools.web_search.api_key');
  return toFinding(await pingServer(freeCall?.request ?? keylessCall(search.url), checkTimeoutMs), {
    host: new URL(search.url).host,
    keyFix: hasKey ? key : (freeCall?.setupHint ?? key),
    urlOption: 'tools.web_search.url',
    hasKey,
    freeCallName: freeCall && 'the free request that tests the key',
    waitMs: checkTimeoutMs,
  });
}

function setKey(where: string): string {
  return `Set ${where} to a valid key.`;
}

/** Includes 400, which some vendors return for a wrong key. The rest of the call is valid. */
const rejectionStatuses: ReadonlySet<number> = new Set([400, 401, 403]);
/** Statuses of a server that is reachable but doesn't support the free call. */
const notFoundStatuses: ReadonlySet<number> = new Set([404, 405, 501]);

function toFinding(probed: PingResult, server: ServerInfo): Finding {
  const { host, keyFix, urlOption, hasKey } = server;
  const reachFix = `Check ${urlOption}, and make sure that this machine can reach the server.`;
  switch (probed.kind) {
    case 'silent':
      return unhealthy(`${host} didn't respond within ${server.waitMs / 1000} s.`, reachFix);
    case 'untrusted':
      return unhealthy(
        `${host} has a certificate that isn't trusted here (${probed.code}).`,
        `Check ${urlOption} and this machine's clock. For a private certificate authority, set ` +
          'NODE_EXTRA_CA_CERTS.',
      );
    case 'unreached':
      return unhealthy(`${host} can't be reached (${probed.code}).`, reachFix);
    case 'unusable key':
      return unhealthy(probed.message, keyFix);
    case 'answered':
      break;
  }
  const { status, ms } = probed;
  if (server.freeCallName === undefined) {
    const unchecked = hasKey ? "; its key wasn't checked, because that would cost money" : '';
    return healthy(`${host} answers in ${ms} ms${unchecked}.`);
  }
  if (notFoundStatuses.has(status)) {
    const unchecked = hasKey ? ", so the key wasn't checked" : '';
    const reason = `doesn't support ${server.freeCallName} (${status})${unchecked}`;
    return healthy(`${host} answers in ${ms} ms, but ${reason}. Check ${urlOption} if calls fail.`);
  }
  if (status < 300)
    return healthy(`${host} ${hasKey ? 'accepts the key' : 'answers'} in ${ms} ms.`);
  if (rejectionStatuses.has(status)) {
    const rejected = hasKey ? 'the key' : 'a call without a key';
    return unhealthy(`${host} rejects ${rejected} (${status}).`, keyFix);
  }
  if (status === 429) {
    return healthy(`${host} answers in ${ms} ms, but its rate limit is reached (429).`);
  }
  if (status < 500) return unhealthy(`${host} returned status ${status}.`, `Check ${urlOption}.`);
  return unhealthy(
    `${host} returned status ${status}.`,
    'Try again later, or check its status page.',
  );
}
