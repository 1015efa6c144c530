import { parsePrivateTarget } from '../core/network-address.ts';
import { Secret } from '../core/secret.ts';
import type { Bootstrap, WebSearch } from './config.ts';
import { invalidKeyMessage, isValidHeader } from './merge.ts';
import type { ConfigProblem } from './problems.ts';
import type { Environment } from './read-file.ts';
import type { ConfigFile } from './schema.ts';

const defaultCredits = 10_000_000;

/**
 * Reads the keys for an unattended start from the environment. Their form is validated, because a
 * short key could be guessed.
 */
export function readBootstrap(environment: Environment, problems: ConfigProblem[]): Bootstrap {
  const key = (name: string, prefix: string): Secret | null => {
    const value = environment[name];
    if (!value) return null;
    if (!value.startsWith(prefix) || value.length < 32 || !/^[\x21-\x7e]+$/.test(value)) {
      const message = `must start with ${prefix} and have at least 32 characters without spaces`;
      problems.push({ path: name, message });
      return null;
    }
    return new Secret(value);
  };
  return {
    apiKey: key('TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-'),
    managementKey: key('TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-mgmt-'),
    adminToken: key('TOLLGATE_ADMIN_TOKEN', 'sk-admin-'),
    credits: readCredits(environment.TOLLGATE_BOOTSTRAP_CREDITS, problems),
  };
}

const secretKeyLengthMin = 32;

/** Reads a key that encrypts tenants' credentials. Null if it is in the data directory. */
export function readSecretKey(
  path: 'TOLLGATE_SECRET_KEY' | 'TOLLGATE_PREVIOUS_SECRET_KEY',
  environment: Environment,
  problems: ConfigProblem[],
): Secret | null {
  const value = environment[path];
  if (!value) return null;
  if (value.length >= secretKeyLengthMin) return new Secret(value);
  problems.push({ path, message: `must have at least ${secretKeyLengthMin} characters` });
  return null;
}

function readCredits(text: string | undefined, problems: ConfigProblem[]): number {
  if (!text) return defaultCredits;
  const credits = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(credits)) return credits;
  const path = 'TOLLGATE_BOOTSTRAP_CREDITS';
  problems.push({ path, message: 'must be a whole number of credits' });
  return defaultCredits;
}

const expected =
  'must be a full host name without * and port, or an address or range inside 10.0.0.0/8, ' +
  '172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, 127.0.0.0/8, fc00::/7 or ::1, but no metadata ' +
  'service';

/** Reads `private_addresses`. Entries must be private host names, addresses or ranges. */
export function readPrivateAddresses(
  file: ConfigFile,
  problems: ConfigProblem[],
): readonly string[] {
  const entries = file.private_addresses ?? [];
  return entries.filter((entry, index) => {
    if (parsePrivateTarget(entry)) return true;
    problems.push({ path: `private_addresses[${index}]`, message: `${expected}, not "${entry}"` });
    return false;
  });
}

/** The default address of each engine, and whether it needs a key. */
const engines: Readonly<
  Record<WebSearch['engine'], { readonly url: string | null; readonly needsKey: boolean }>
> = {
  // SearXNG is self-hosted, so there is no default address.
  searxng: { url: null, needsKey: false },
  brave: { url: 'https://api.search.brave.com', needsKey: true },
  tavily: { url: 'https://api.tavily.com', needsKey: true },
};

/** Reads `tools.web_search`. Returns null if it is absent or has problems. */
export function readWebSearch(file: ConfigFile, problems: ConfigProblem[]): WebSearch | null {
  const search = file.tools?.web_search;
  if (!search) return null;
  const refuse = (field: string, message: string) => {
    problems.push({ path: `tools.web_search.${field}`, message });
    return null;
  };
  const { engine } = search;
  if (engine === undefined) return refuse('engine', 'is required');
  const url = search.url ?? engines[engine].url;
  if (url === null) return refuse('url', `is required for ${engine}`);
  // Paths and parameters are appended to the URL, and a password belongs in api_key.
  if (/[?#]|\/\/[^/]*@/.test(url))
    return refuse('url', 'must have no user name, query, or fragment');
  const apiKey = search.api_key?.trim();
  if (engines[engine].needsKey && !apiKey) return refuse('api_key', `is required for ${engine}`);
  if (apiKey && !isValidHeader('authorization', apiKey))
    return refuse('api_key', invalidKeyMessage);
  return {
    engine,
    url: url.replace(/\/+$/, ''),
    apiKey: apiKey ? new Secret(apiKey) : null,
    usdPerSearch: search.usd_per_search ?? '0.005',
    callsMax: search.calls_max ?? 5,
    resultsMax: search.results_max ?? 5,
  };
}
