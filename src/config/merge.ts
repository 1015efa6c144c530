import { isLoopback } from '../core/network-address.ts';
import { readProviderKey, regionIn } from '../core/provider-key.ts';
import type { ValidationIssue } from '../core/schema.ts';
import { Secret } from '../core/secret.ts';
import type { BuiltinProvider } from './catalog/index.ts';
import type { Endpoint, Model, Provider } from './config.ts';
import type { ModelFile } from './model-schema.ts';
import type { MissingVariable } from './problems.ts';
import { type DialectName, dialectNames, type ProviderFile } from './provider-schema.ts';
import type { Environment } from './read-file.ts';

/** The shipped catalogue and the operator's file, laid over each other. */

const defaultTimeoutMs = 120_000;
/** The voices of `first_party` speech models, unless a model lists its own. */
const defaultVoices = ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer'];

/**
 * The file's providers and the built-in ones. A built-in provider whose key is not set stays, for
 * tenants who bring their own key.
 */
export function mergeProviders(
  builtin: readonly BuiltinProvider[],
  file: Readonly<Record<string, ProviderFile>>,
  environment: Environment,
  problems: ValidationIssue[],
): ReadonlyMap<string, Provider> {
  const shippedByName = new Map(builtin.map((provider) => [provider.name, provider]));
  const notInFile = builtin
    .filter(({ name }) => !(name in file))
    .map(({ name, api_key_env }) => [name, { shared: Boolean(environment[api_key_env]) }] as const);
  const providers = [...Object.entries(file), ...notInFile].flatMap(
    ([name, own]) => mergeProvider(name, own, shippedByName.get(name), environment, problems) ?? [],
  );
  return new Map(providers.map((provider) => [provider.name, provider]));
}

function mergeProvider(
  name: string,
  own: ProviderFile,
  shipped: BuiltinProvider | undefined,
  environment: Environment,
  problems: ValidationIssue[],
): Provider | undefined {
  const path = `providers.${name}`;
  const refuse = (field: string, message: string) =>
    problems.push({ path: `${path}.${field}`, message });
  const dialect = own.dialect ?? shipped?.dialect;
  const baseUrl = own.base_url ?? shipped?.base_url ?? '';
  // Null is an answer, too: the key in the environment must not go to a server that gets none.
  const written = own.api_key === undefined ? environment[shipped?.api_key_env ?? ''] : own.api_key;
  // A key read from a file often ends in a line break.
  const apiKey = written?.trim();
  if (dialect === undefined) refuse('dialect', `is required: one of ${dialectNames.join(', ')}`);
  if (baseUrl === '') {
    refuse('base_url', 'is required: where it is, such as "https://api.example.com/v1"');
  }
  const shared = own.shared ?? true;
  if (shipped && own.api_key === undefined && !apiKey && shared) {
    const variable = shipped.api_key_env;
    const message = `is required: write it here, set ${variable}, or write null`;
    const missing: MissingVariable = { path: `${path}.api_key`, message, variable };
    problems.push(missing);
  }
  if (apiKey) problems.push(...keyProblems(path, apiKey, { dialect, baseUrl, ...own }));
  const headers = Object.entries(own.headers ?? {});
  if (headers.some((header) => !isValidHeader(...header))) {
    refuse('headers', 'has a name or a value that no header can carry');
  }
  // A provider without an address is kept: a command that calls no provider need not have its
  // variable set.
  if (dialect === undefined) return undefined;
  if (baseUrl !== '' && !isValidBaseUrl(baseUrl)) refuse('base_url', invalidBaseUrl);
  return {
    name,
    dialect,
    baseUrl: baseUrl.replace(/\/+$/, ''),
    apiKey: apiKey ? new Secret(apiKey) : null,
    region: own.region,
    // A value read from a file may end in a line break.
    headers: Object.fromEntries(headers.map(([of, value]) => [of, new Secret(value.trim())])),
    timeoutMs: own.timeout_ms ?? defaultTimeoutMs,
    idleTimeoutMs: own.idle_timeout_ms ?? defaultTimeoutMs,
    isProxied: isProxied(baseUrl, environment),
    shared,
    byokBaseUrl: own.byok_base_url ?? false,
    quirks: { ...shipped?.quirks, ...own.quirks },
  };
}

/** A proxy in the environment is used for other machines, not for loopback addresses. */
function isProxied(url: string, environment: Environment): boolean {
  const { HTTPS_PROXY, https_proxy, HTTP_PROXY, http_proxy } = environment;
  const proxy = url.startsWith('https:') ? https_proxy || HTTPS_PROXY : http_proxy || HTTP_PROXY;
  return !isLoopback(url) && Boolean(proxy);
}

interface KeyTarget {
  readonly dialect: DialectName | undefined;
  readonly baseUrl: string;
  readonly region?: string;
}

/** Why no request could be sent with this key; empty if it is usable. */
function keyProblems(
  path: string,
  text: string,
  { dialect = 'openai', baseUrl, region }: KeyTarget,
): readonly ValidationIssue[] {
  const key = readProviderKey(text, dialect);
  if (typeof key === 'string') return [{ path: `${path}.api_key`, message: key }];
  if (key.kind === 'word' && !isValidHeader('authorization', text)) {
    return [{ path: `${path}.api_key`, message: invalidKeyMessage }];
  }
  if (key.kind !== 'aws' || regionIn(baseUrl) || region) return [];
  const message = 'is required: the key signs for a region, and base_url does not name one';
  return [{ path: `${path}.region`, message }];
}

/**
 * The file's models replace shipped ones of the same id; endpoints of unknown providers are left
 * out.
 */
export function mergeModels(
  builtin: readonly ModelFile[],
  file: readonly ModelFile[],
  providers: ReadonlyMap<string, Provider>,
): readonly Model[] {
  const own = new Map(file.map((model) => [model.id, completeModel(model, providers)]));
  const shipped = builtin.filter((model) => !own.has(model.id));
  return [
    ...shipped.map((model) => ({ ...completeModel(model, providers), isShipped: true as const })),
    ...own.values(),
  ];
}

function completeModel(model: ModelFile, providers: ReadonlyMap<string, Provider>): Model {
  const { speech: speechAsWritten } = model;
  const endpoints: Endpoint[] = model.endpoints
    .filter((endpoint) => providers.has(endpoint.provider))
    .map((endpoint) => ({
      ...endpoint,
      priority: endpoint.priority ?? 0,
      pricing: endpoint.pricing ?? {},
      // As written, without the default voices added below: those are names for clients, and each
      // dialect knows what its provider calls them.
      ...(speechAsWritten && { speech: endpoint.speech ?? speechAsWritten }),
    }))
    .sort((a, b) => a.priority - b.priority);
  const speech = withVoices(speechAsWritten);
  return { ...model, features: model.features ?? [], endpoints, ...(speech && { speech }) };
}

/** A `first_party` model must refuse unknown voices, so it always has a list of known ones. */
function withVoices(speech: ModelFile['speech']): ModelFile['speech'] {
  if (speech?.style !== 'first_party' || speech.voices) return speech;
  return { ...speech, voices: Object.fromEntries(defaultVoices.map((voice) => [voice, voice])) };
}

export const invalidBaseUrl = 'must be an http(s) address without user, query or fragment';

/** Whether a path can be appended to the address. */
export function isValidBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  // The text itself is searched: `url.search` is empty for a bare `?`, but a path behind it would
  // become a query.
  return url !== null && url.username === '' && !/[?#]/.test(text);
}

/** Set by each request itself; a second value could make a server read one request as two. */
const bodyHeaders = /^(?:content-length|transfer-encoding)$/i;

/** Whether this header can be sent; otherwise every request would fail. */
export function isValidHeader(name: string, value: string): boolean {
  // Clients and servers disagree on the encoding of letters beyond ASCII.
  if (bodyHeaders.test(name) || !/^[\t\n\r\x20-\x7e]*$/.test(value)) return false;
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}

export const invalidKeyMessage = 'has characters that no header can carry; was it copied whole?';
