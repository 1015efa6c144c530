import { isLoopback } from '../core/network-address.ts';
import { readProviderKey, regionIn } from '../core/provider-key.ts';
import { Secret } from '../core/secret.ts';
import type { BuiltinProvider } from './catalog/index.ts';
import type { Endpoint, Model, Provider, ProviderKey } from './config.ts';
import type { ModelConfig, Stickiness } from './model-schema.ts';
import type { ConfigProblem } from './problems.ts';
import {
  type DialectName,
  dialectNames,
  type PreviousKeyConfig,
  type ProviderConfig,
  type ProviderKeyConfig,
} from './provider-schema.ts';
import type { Environment } from './read-file.ts';
import { invalidBaseUrl, invalidKeyMessage, isValidBaseUrl, isValidHeader } from './validation.ts';
import { resolveCredentials } from './workload.ts';

const defaultTimeoutMs = 120_000;
/** Default voices of `first_party` speech models that list no voices. */
const defaultVoices = ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer'];

/**
 * Returns the file's providers and the built-in ones. A built-in provider without a key is kept for
 * tenants who bring their own key.
 */
export function mergeProviders(
  builtin: readonly BuiltinProvider[],
  file: Readonly<Record<string, ProviderConfig>>,
  environment: Environment,
  problems: ConfigProblem[],
): ReadonlyMap<string, Provider> {
  const builtInByName = new Map(builtin.map((provider) => [provider.name, provider]));
  const notInFile = builtin
    .filter(({ name }) => !(name in file))
    .map(({ name, api_key_env }) => [name, { shared: Boolean(environment[api_key_env]) }] as const);
  const providers = [...Object.entries(file), ...notInFile].flatMap(([name, inFile]) => {
    const path = `providers.${name}`;
    const builtIn = builtInByName.get(name);
    const { config, workload } = resolveCredentials(path, inFile, builtIn, environment, problems);
    const merged = mergeProvider(name, config, builtIn, environment, problems);
    return merged ? [workload ? { ...merged, workload } : merged] : [];
  });
  return new Map(providers.map((provider) => [provider.name, provider]));
}

function mergeProvider(
  name: string,
  inFile: ProviderConfig,
  builtIn: BuiltinProvider | undefined,
  environment: Environment,
  problems: ConfigProblem[],
): Provider | undefined {
  const path = `providers.${name}`;
  const reject = (field: string, message: string) =>
    problems.push({ path: `${path}.${field}`, message });
  const dialect = inFile.dialect ?? builtIn?.dialect;
  const baseUrl = inFile.base_url ?? builtIn?.base_url ?? '';
  // Null means that no key is sent: the key in the environment must not go to that server.
  const variable = inFile.api_keys ? '' : builtIn?.api_key_env;
  const written = inFile.api_key === undefined ? environment[variable ?? ''] : inFile.api_key;
  // A key read from a file often ends with a line break.
  const apiKey = written?.trim();
  if (dialect === undefined) reject('dialect', `is required: one of ${dialectNames.join(', ')}`);
  if (baseUrl === '') {
    reject('base_url', 'is required, for example "https://api.example.com/v1"');
  }
  const shared = inFile.shared ?? true;
  if (builtIn && inFile.api_key === undefined && !inFile.api_keys && !apiKey && shared) {
    const variable = builtIn.api_key_env;
    const message = `is required: set it here or in ${variable}; set null if no key is needed`;
    const missing: ConfigProblem = { path: `${path}.api_key`, message, variable };
    problems.push(missing);
  }
  const target = { ...inFile, dialect, baseUrl };
  if (apiKey) problems.push(...keyProblems(path, 'api_key', apiKey, target));
  if (inFile.api_keys) problems.push(...keyListProblems(path, inFile.api_keys, target));
  problems.push(...previousKeyProblems(path, '', inFile.previous_key, target));
  if (inFile.previous_key && !apiKey) {
    reject('previous_key', 'needs an api_key, which it is used in place of');
  }
  const headers = Object.entries(inFile.headers ?? {});
  if (headers.some((header) => !isValidHeader(...header))) {
    reject('headers', 'has a name or value that is not valid in a header');
  }
  // Keep a provider without a base URL: a command that calls no provider doesn't need its variable.
  if (dialect === undefined) return undefined;
  if (baseUrl !== '' && !isValidBaseUrl(baseUrl)) reject('base_url', invalidBaseUrl);
  const provider: Provider = {
    name,
    dialect,
    baseUrl: baseUrl.replace(/\/+$/, ''),
    apiKey: apiKey ? new Secret(apiKey) : null,
    region: inFile.region,
    // A value read from a file may end with a line break.
    headers: Object.fromEntries(
      headers.map(([header, value]) => [header, new Secret(value.trim())]),
    ),
    timeoutMs: inFile.timeout_ms ?? defaultTimeoutMs,
    idleTimeoutMs: inFile.idle_timeout_ms ?? defaultTimeoutMs,
    isProxied: isProxied(baseUrl, environment),
    shared,
    byokBaseUrl: inFile.byok_base_url ?? false,
    quirks: { ...builtIn?.quirks, ...inFile.quirks },
  };
  const { api_keys: several, previous_key } = inFile;
  if (several) return withKeys(provider, several);
  // The key has the name of its option.
  return apiKey && previous_key
    ? withKeys(provider, [{ name: 'api_key', key: apiKey, previous_key }])
    : provider;
}

function withKeys(provider: Provider, configured: readonly ProviderKeyConfig[]): Provider {
  const keys = configured.flatMap(({ previous_key: previous, ...key }) => {
    const limits = {
      weight: key.weight ?? 1,
      requestsPerMinute: key.requests_per_minute ?? null,
      concurrentRequests: key.concurrent_requests ?? null,
      isDisabled: key.disabled ?? false,
    };
    const keyOf = (name: string, text: string, until: number | null): ProviderKey => ({
      ...{ name, ...limits, until },
      provider: { ...provider, apiKey: new Secret(text.trim()) },
    });
    const current = keyOf(key.name, key.key, null);
    if (!previous) return [current];
    return [current, keyOf(`${key.name} (previous)`, previous.key, Date.parse(previous.until))];
  });
  const first = keys.find(({ isDisabled }) => !isDisabled);
  return { ...provider, apiKey: first?.provider.apiKey ?? null, keys };
}

/** Returns the problems of a list of keys. */
function keyListProblems(
  path: string,
  keys: readonly ProviderKeyConfig[],
  { api_key: single, ...target }: KeyTarget & Pick<ProviderConfig, 'api_key'>,
): readonly ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  // Null removes a single key that the store has.
  if (single !== undefined && single !== null) {
    const message = "can't be set together with api_key; set only one of them";
    problems.push({ path: `${path}.api_keys`, message });
  }
  if (keys.every(({ disabled }) => disabled)) {
    const message = 'has no enabled key; enable at least one';
    problems.push({ path: `${path}.api_keys`, message });
  }
  const names = new Set<string>();
  for (const [i, { name, key, previous_key }] of keys.entries()) {
    problems.push(...previousKeyProblems(path, `api_keys[${i}].`, previous_key, target));
    if (names.has(name)) {
      const message = `is "${name}", which an earlier key already has`;
      problems.push({ path: `${path}.api_keys[${i}].name`, message });
    }
    names.add(name);
    const field = `api_keys[${i}].key`;
    if (key.trim() === '') {
      problems.push({ path: `${path}.${field}`, message: 'must be a non-empty quoted string' });
    } else problems.push(...keyProblems(path, field, key.trim(), target));
  }
  return problems;
}

function previousKeyProblems(
  path: string,
  parent: string,
  previous: PreviousKeyConfig | undefined,
  target: KeyTarget,
): readonly ConfigProblem[] {
  if (!previous) return [];
  const problems = [...keyProblems(path, `${parent}previous_key.key`, previous.key.trim(), target)];
  if (Number.isNaN(Date.parse(previous.until))) {
    problems.push({ path: `${path}.${parent}previous_key.until`, message: "isn't a time" });
  }
  return problems;
}

/** Returns whether a proxy from the environment applies. Loopback addresses don't use it. */
function isProxied(url: string, environment: Environment): boolean {
  const { HTTPS_PROXY, https_proxy, HTTP_PROXY, http_proxy } = environment;
  const proxy = url.startsWith('https:') ? https_proxy || HTTPS_PROXY : http_proxy || HTTP_PROXY;
  return !isLoopback(url) && Boolean(proxy);
}

interface KeyTarget {
  readonly dialect: DialectName | undefined;
  readonly baseUrl: string;
  readonly region?: string | undefined;
}

/** Returns the reasons why requests can't be sent with this key, or an empty list. */
function keyProblems(
  path: string,
  field: string,
  text: string,
  { dialect = 'openai', baseUrl, region }: KeyTarget,
): readonly ConfigProblem[] {
  const key = readProviderKey(text, dialect);
  if (typeof key === 'string') return [{ path: `${path}.${field}`, message: key }];
  if (key.kind === 'plain' && !isValidHeader('authorization', text)) {
    return [{ path: `${path}.${field}`, message: invalidKeyMessage }];
  }
  if (key.kind !== 'aws' || regionIn(baseUrl) || region) return [];
  const message =
    'is required: requests with an AWS key are signed for a region, and base_url does not name one';
  return [{ path: `${path}.region`, message }];
}

/** Returns all models. Models in the file replace built-in models with the same ID. */
export function mergeModels(
  builtin: readonly ModelConfig[],
  file: readonly ModelConfig[],
  providers: ReadonlyMap<string, Provider>,
  stickiness: Stickiness,
): readonly Model[] {
  const complete = (model: ModelConfig) => completeModel({ stickiness, ...model }, providers);
  const inFile = new Map(file.map((model) => [model.id, complete(model)]));
  const builtIn = builtin.filter((model) => !inFile.has(model.id));
  return [
    ...builtIn.map((model) => ({ ...complete(model), isBuiltIn: true as const })),
    ...inFile.values(),
  ];
}

function completeModel(model: ModelConfig, providers: ReadonlyMap<string, Provider>): Model {
  const { speech: speechAsWritten } = model;
  const endpoints: Endpoint[] = model.endpoints
    .filter((endpoint) => providers.has(endpoint.provider))
    .map((endpoint) => ({
      ...endpoint,
      priority: endpoint.priority ?? 0,
      pricing: endpoint.pricing ?? {},
      // Omit the default voices added below. They are for clients, and each dialect maps them to
      // its provider's voices.
      ...(speechAsWritten && { speech: endpoint.speech ?? speechAsWritten }),
    }))
    .sort((a, b) => a.priority - b.priority);
  const speech = withVoices(speechAsWritten);
  return { ...model, features: model.features ?? [], endpoints, ...(speech && { speech }) };
}

/** Adds default voices to `first_party` models, which must reject unknown voices. */
function withVoices(speech: ModelConfig['speech']): ModelConfig['speech'] {
  if (speech?.style !== 'first_party' || speech.voices) return speech;
  return { ...speech, voices: Object.fromEntries(defaultVoices.map((voice) => [voice, voice])) };
}
