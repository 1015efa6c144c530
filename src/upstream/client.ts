import type { Provider } from '../config/config.ts';
import type { DialectName } from '../config/provider-schema.ts';
import { GatewayError, shuttingDown } from '../core/errors.ts';
import type { UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import { ownFailure } from '../dialects/failure.ts';
import {
  type Borrower,
  type Connections,
  connectionsTo,
  usualHeaders,
  usualOptions,
} from './connections.ts';
import { callPinned, codeOf } from './guard/pinned-call.ts';
import { type CheckAddress, RefusedAddress, targetOf } from './guard/user-address.ts';
import { type Pass, useOfKey } from './keys/pass.ts';
import { UnusableKey } from './keys/unusable-key.ts';

/**
 * The one door to providers. A credential belongs to its provider's origin: the address is built
 * from that provider's own base URL here, and nothing a client sends can lead it elsewhere.
 * `check` is given when a tenant chose that base URL: it is dialled only where the check allows.
 */
export function send(
  provider: Provider,
  request: UpstreamRequest,
  line: Borrower,
  check?: CheckAddress,
): Promise<Response> {
  const prepared = preparedFor(provider);
  if (prepared.pass) return sendWithPass(prepared.pass, prepared, request, line, check);
  return dial(prepared, callOf(request, prepared, line.signal), request.path, line, check);
}

/** Asks a provider for something that is free and changes nothing, with its key. */
export async function ask(
  provider: Provider,
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  const { baseUrl, headers, pass, options } = preparedFor(provider);
  const url = baseUrl + path;
  const shown = pass && (await pass.headersFor({ url, contentType: '', body: '' }, signal));
  return fetch(url, { ...options, method: 'GET', headers: { ...headers, ...shown }, signal });
}

/** A provider that refuses what it took before is shown a new one, once. */
async function sendWithPass(
  pass: Pass,
  prepared: Prepared,
  request: UpstreamRequest,
  line: Borrower,
  check?: CheckAddress,
): Promise<Response> {
  const { path, body } = request;
  const url = prepared.baseUrl + path;
  for (let isLast = false; ; isLast = true) {
    const call = callOf(request, prepared, line.signal);
    const contentType = call.headers['content-type'] ?? '';
    const shown = await pass.headersFor({ url, contentType, body }, line.signal);
    const signed = { ...call, headers: { ...call.headers, ...shown } };
    const response = await dial(prepared, signed, path, line, check);
    if (!pass.isOutdated?.(shown, response.status) || isLast) return response;
    // Its connection is closed with it, so that nobody gives it back.
    line.lender = undefined;
    await response.body?.cancel();
  }
}

function dial(
  prepared: Prepared,
  call: PreparedFetch,
  path: string,
  line: Borrower,
  check: CheckAddress | undefined,
): Promise<Response> {
  const { baseUrl } = prepared;
  const url = baseUrl + path;
  if (check) return sendChecked(url, call, check);
  prepared.connections ??= connectionsTo(baseUrl);
  return prepared.connections.post(url, call, line);
}

function callOf(request: UpstreamRequest, prepared: Prepared, signal: AbortSignal): PreparedFetch {
  const { options } = prepared;
  const { body } = request;
  const headers = request.headers ? { ...prepared.headers, ...request.headers } : prepared.headers;
  if (typeof body === 'string' || body instanceof Uint8Array)
    return { ...options, headers, body, signal };
  // Read while it is sent, on a connection of its own: it could not be sent again.
  const withLength = { ...headers, 'content-length': String(body.bytes) };
  return { ...options, headers: withLength, body: body.chunks(), keepalive: false, signal };
}

async function sendChecked(
  url: string,
  call: PreparedFetch,
  check: CheckAddress,
): Promise<Response> {
  const target = await targetOf(url, check, call.signal);
  return callPinned(target, { ...call, headers: new Headers(call.headers) });
}

interface PreparedFetch extends BunFetchRequestInit {
  readonly signal: AbortSignal;
  readonly headers: Readonly<Record<string, string>>;
}

interface Prepared {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** For keys that are more than a word in a header. */
  readonly pass: Pass | undefined;
  readonly options: BunFetchRequestInit;
  /** Undefined for an address that a tenant chose: there could be any number of those. */
  connections: Connections | undefined;
}

const preparedByProvider = new WeakMap<Provider, Prepared>();

/** What is the same in every call to a provider, put together once. */
function preparedFor(provider: Provider): Prepared {
  const known = preparedByProvider.get(provider);
  if (known) return known;
  const { baseUrl, dialect } = provider;
  const { headers, pass } = useOfKey(provider, authorise[dialect]);
  const fresh: Prepared = {
    baseUrl,
    headers: {
      'content-type': 'application/json',
      ...usualHeaders,
      ...revealed(provider.headers),
      ...headers,
    },
    pass,
    options: { ...usualOptions(baseUrl), method: 'POST' },
    connections: undefined,
  };
  preparedByProvider.set(provider, fresh);
  return fresh;
}

/** What no message of this provider may tell. */
export function secretsOf(provider: Provider): readonly string[] {
  if (!provider.apiKey) return [];
  return preparedFor(provider).pass?.secrets ?? [provider.apiKey.reveal()];
}

function revealed(headers: Provider['headers']): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, at]) => [name, at.reveal()]));
}

type Authorise = (key: string) => Record<string, string>;

const bearer: Authorise = (key) => ({ authorization: `Bearer ${key}` });

const authorise: Readonly<Record<DialectName, Authorise>> = {
  openai: bearer,
  'openai-responses': bearer,
  anthropic: (key) => ({ 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
  gemini: (key) => ({ 'x-goog-api-key': key }),
  bedrock: bearer,
  cohere: bearer,
  siliconflow: bearer,
};

/** This process or this machine has no place for another connection. */
const tooManyOpen: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);

/** Throws when it was us who could not make the call: then nobody else need be tried or blamed. */
export function refuseOwnFailure(thrown: unknown, isShuttingDown: boolean): void {
  if (isShuttingDown) throw shuttingDown();
  if (!tooManyOpen.has(codeOf(thrown))) return;
  const message = 'This Tollgate has too many connections open; try again shortly.';
  const details = { retryAfterSeconds: 1, cause: thrown };
  throw new GatewayError('service_unavailable', message, details);
}

/** What a broken connection means. The text of such errors may name hosts; it stays in our log. */
export function connectionFailure(thrown: unknown, timedOut: boolean): UpstreamFailure {
  if (timedOut) return ownFailure('timeout', 'The provider did not answer in time.');
  if (thrown instanceof RefusedAddress) {
    const message = `The base URL of your credential was refused: ${thrown.message}`;
    return ownFailure('unreachable', message);
  }
  if (thrown instanceof UnusableKey) return ownFailure(thrown.kind, thrown.message);
  const code = codeOf(thrown);
  const message = `The provider could not be reached${code ? ` (${code})` : ''}.`;
  return ownFailure('unreachable', message);
}
