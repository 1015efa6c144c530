import { builtinCatalogue } from '../../config/catalogue/index.ts';
import type { Config, Provider, WebSearch } from '../../config/config.ts';
import { freeCallTo } from '../../tools/http-search.ts';
import {
  bareCall,
  hasFreeCall,
  type Probed,
  probeProvider,
  probeServer,
} from '../../upstream/probe.ts';
import { type Check, type Finding, patienceMs, unwell, well } from './check.ts';

/** Checks the providers that may be called with the operator's own keys. */
export function providerChecks(config: Config, waitMs = patienceMs): readonly Check[] {
  const shared = [...config.providers.values()].filter((provider) => provider.shared);
  if (shared.length === 0) return [{ name: 'providers', look: () => noProvider(config) }];
  return shared.map((provider) => ({
    name: `provider ${provider.name}`,
    look: async () => judge(await probeProvider(provider, waitMs), askedOf(provider, waitMs)),
  }));
}

export function searchChecks({ webSearch }: Config): readonly Check[] {
  if (!webSearch) return [];
  return [{ name: 'web search', look: () => searchFinding(webSearch) }];
}

function noProvider({ demo }: Config): Finding {
  const [first] = builtinCatalogue.providers;
  const fix = `Set the key of one, such as ${first?.api_key_env}.`;
  if (demo) return well(`None has a key, so the demo answers. ${fix}`);
  return unwell('None has a key, and the demo is off.', fix);
}

interface Asked {
  readonly host: string;
  /** The option that sets the server's address. */
  readonly address: string;
  readonly hasKey: boolean;
  /** What to do if the server refuses the key, in one sentence. */
  readonly opening: string;
  /**
   * What the free call asks for; undefined if there is none, and an answer only shows that the
   * server is there.
   */
  readonly free: string | undefined;
  readonly waitMs: number;
}

function askedOf(provider: Provider, waitMs: number): Asked {
  const { name, baseUrl, apiKey, headers } = provider;
  const shipped = builtinCatalogue.providers.find((one) => one.name === name);
  const option = `providers.${name}.api_key`;
  return {
    host: new URL(baseUrl).host,
    opening: setKey(shipped ? `${shipped.api_key_env} or ${option}` : option),
    address: `providers.${name}.base_url`,
    hasKey: apiKey !== null || Object.keys(headers).length > 0,
    free: hasFreeCall(provider) ? 'model list' : undefined,
    waitMs,
  };
}

async function searchFinding(search: WebSearch): Promise<Finding> {
  const free = freeCallTo(search);
  const hasKey = search.apiKey !== null;
  const key = setKey('tools.web_search.api_key');
  return judge(await probeServer(free?.request ?? bareCall(search.url), patienceMs), {
    host: new URL(search.url).host,
    opening: hasKey ? key : (free?.opening ?? key),
    address: 'tools.web_search.url',
    hasKey,
    free: free && 'free call',
    waitMs: patienceMs,
  });
}

function setKey(where: string): string {
  return `Set ${where} to a key that it accepts.`;
}

/**
 * 400 is among them because some vendors refuse a wrong key with it, and nothing else in these
 * calls can be wrong.
 */
const refusals: ReadonlySet<number> = new Set([400, 401, 403]);
/** Statuses of a server that is reachable but does not offer the free call. */
const unknown: ReadonlySet<number> = new Set([404, 405, 501]);

function judge(probed: Probed, asked: Asked): Finding {
  const { host, opening, address, hasKey } = asked;
  const reach = `Check ${address}, and that this machine may reach it.`;
  switch (probed.kind) {
    case 'silent':
      return unwell(`${host} did not answer within ${asked.waitMs / 1000} s.`, reach);
    case 'untrusted':
      return unwell(
        `${host} shows a certificate that is not trusted here (${probed.code}).`,
        `Check ${address} and the clock; NODE_EXTRA_CA_CERTS names an authority of your own.`,
      );
    case 'unreached':
      return unwell(`${host} cannot be reached (${probed.code}).`, reach);
    case 'unusable key':
      return unwell(probed.message, opening);
    case 'answered':
      break;
  }
  const { status, ms } = probed;
  if (asked.free === undefined) {
    const untried = hasKey ? '; the key cannot be tried free of charge' : '';
    return well(`${host} answers in ${ms} ms${untried}.`);
  }
  if (unknown.has(status)) {
    const untried = `${hasKey ? 'the key' : 'a call'} is untried, and ${address} may be wrong`;
    const none = `offers no ${asked.free} (${status})`;
    return well(`${host} answers in ${ms} ms, but ${none}: ${untried}.`);
  }
  if (status < 300) return well(`${host} answers ${hasKey ? 'to the key ' : ''}in ${ms} ms.`);
  if (refusals.has(status)) {
    const what = hasKey ? 'the key' : 'a call without a key';
    return unwell(`${host} refuses ${what} (${status}).`, opening);
  }
  if (status === 429) {
    return well(`${host} answers in ${ms} ms that it is asked too often right now (429).`);
  }
  if (status < 500) return unwell(`${host} answers with ${status}.`, `Check ${address}.`);
  return unwell(`${host} fails with ${status}.`, 'Try again later, or see its status page.');
}
