import type { Provider } from '../config/config.ts';
import { failureCode, GatewayError, shuttingDown } from '../core/errors.ts';
import type { LongBytes } from '../core/form.ts';
import type { UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import { createFailure } from '../dialects/failure.ts';
import { dialects } from '../dialects/registry.ts';
import { type ConnectionPool, poolFor } from './connection/pool.ts';
import { type HttpResponse, toHttpResponse } from './connection/response.ts';
import { formatHeaders, formatRequestHead, RoundTrip } from './connection/round-trip.ts';
import { type CheckAddress, callPinned, RefusedAddress, targetOf } from './guard/pinned-call.ts';
import { type Authorizer, credentialFor, InvalidKeyError } from './keys/authorizer.ts';
import { defaultFetchOptions, defaultHeaders } from './operator-call.ts';
import type { UpstreamCall } from './upstream-call.ts';

/**
 * The one door to providers. A credential belongs to its provider's origin: the address is built
 * from that provider's own base URL here, and nothing a client sends can lead it elsewhere.
 * `check` is given when a tenant chose that base URL: it is dialled only where the check allows.
 */
export function send(
  provider: Provider,
  request: UpstreamRequest,
  upstreamCall: UpstreamCall,
  check: CheckAddress | undefined,
): Promise<HttpResponse> {
  const prepared = preparedFor(provider);
  if (prepared.authorizer)
    return sendAuthorized(prepared.authorizer, prepared, request, upstreamCall, check);
  return dial(prepared, request, upstreamCall, check);
}

/** Asks a provider for something that is free and changes nothing, with its key. */
export async function queryProvider(
  provider: Provider,
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  const { baseUrl, headers, authorizer } = preparedFor(provider);
  const url = baseUrl + path;
  const authHeaders =
    authorizer && (await authorizer.headersFor({ url, contentType: '', body: '' }, signal));
  return fetch(url, {
    ...defaultFetchOptions(url),
    headers: { ...headers, ...authHeaders },
    signal,
  });
}

/** A provider that refuses headers of a kind it took before is shown new ones, once. */
async function sendAuthorized(
  authorizer: Authorizer,
  prepared: Prepared,
  request: UpstreamRequest,
  upstreamCall: UpstreamCall,
  check: CheckAddress | undefined,
): Promise<HttpResponse> {
  const { path } = request;
  const body = isUpload(request.body) ? request.body : fullBody(request.body);
  const url = prepared.baseUrl + path;
  for (let isLast = false; ; isLast = true) {
    const { 'content-type': contentType = '' } = { ...prepared.headers, ...request.headers };
    const authHeaders = await authorizer.headersFor(
      { url, contentType, body },
      upstreamCall.signal,
    );
    const signed = { ...request, body, headers: { ...request.headers, ...authHeaders } };
    const answer = await dial(prepared, signed, upstreamCall, check);
    if (!authorizer.needsRefresh?.(authHeaders, answer.status) || isLast) return answer;
    answer.body?.cancel();
  }
}

function dial(
  prepared: Prepared,
  request: UpstreamRequest,
  upstreamCall: UpstreamCall,
  check: CheckAddress | undefined,
): Promise<HttpResponse> {
  const { body, path, headers } = request;
  if (check || prepared.isProxied || isUpload(body))
    return fetchWithRuntime(prepared, request, upstreamCall, check);
  prepared.target ??= pooledTargetFor(prepared);
  const { target } = prepared;
  const headerText = headers ? formatHeaders({ ...target.headers, ...headers }) : target.headerText;
  const { start, rest } = splitBody(body);
  const bytes = Buffer.byteLength(start) + (rest?.length ?? 0);
  const head = formatRequestHead(target.path + path, headerText, bytes);
  const trip = new RoundTrip({ start: head + start, rest });
  upstreamCall.bind(trip);
  target.pool.start(trip);
  return trip.response;
}

type BufferedBody = Exclude<UpstreamRequest['body'], LongBytes>;

function isUpload(body: UpstreamRequest['body']): body is LongBytes {
  return typeof body === 'object' && 'chunks' in body;
}

/** A longer text is sent as bytes of its own: joined to the head, it would have to be copied. */
const joinedLengthMax = 16 * 1024;

function splitBody(body: BufferedBody): {
  readonly start: string;
  readonly rest: Uint8Array | undefined;
} {
  if (typeof body !== 'string') return 'rest' in body ? body : { start: '', rest: body };
  if (body.length <= joinedLengthMax) return { start: body, rest: undefined };
  return { start: '', rest: Buffer.from(body) };
}

/** The whole body in one piece, where that is needed. */
function fullBody(body: BufferedBody): string | Uint8Array {
  return typeof body === 'object' && 'rest' in body
    ? Buffer.concat([Buffer.from(body.start), body.rest])
    : body;
}

/** Calls through the runtime, which knows proxies and can read a body while it sends it. */
async function fetchWithRuntime(
  { baseUrl, headers, isProxied }: Prepared,
  { path, body, headers: more }: UpstreamRequest,
  { signal }: UpstreamCall,
  check: CheckAddress | undefined,
): Promise<HttpResponse> {
  const url = baseUrl + path;
  const allHeaders = new Headers({ ...headers, ...more });
  if (isUpload(body)) allHeaders.set('content-length', String(body.bytes));
  const call = {
    ...defaultFetchOptions(baseUrl),
    method: 'POST',
    headers: allHeaders,
    body: isUpload(body) ? body.chunks() : fullBody(body),
    // Reuses no connection for a long body, which could not be sent again if that one was closed.
    keepalive: !isUpload(body) && !isProxied,
    signal,
  };
  if (!check) return toHttpResponse(await fetch(url, call));
  return toHttpResponse(await callPinned(await targetOf(url, check, signal), call));
}

interface Prepared {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Makes the headers for keys that are more than a word in a header. */
  readonly authorizer: Authorizer | undefined;
  readonly isProxied: boolean;
  /**
   * Made by the first call. Stays undefined for an address that a tenant chose: there could be any
   * number of such addresses.
   */
  target: PooledTarget | undefined;
}

/** How a provider is called over connections of our own. */
interface PooledTarget {
  readonly pool: ConnectionPool;
  /** The path of the base URL. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The same headers as they go over the connection. */
  readonly headerText: string;
}

function pooledTargetFor({ baseUrl, headers: configured }: Prepared): PooledTarget {
  const { host, pathname } = new URL(baseUrl);
  const headers = { host, accept: '*/*', connection: 'keep-alive', ...configured };
  const path = pathname.replace(/\/$/, '');
  return { pool: poolFor(baseUrl), path, headers, headerText: formatHeaders(headers) };
}

const preparedByProvider = new WeakMap<Provider, Prepared>();

/** What is the same in every call to a provider, put together once. */
function preparedFor(provider: Provider): Prepared {
  const known = preparedByProvider.get(provider);
  if (known) return known;
  const { baseUrl, dialect } = provider;
  const key = credentialFor(provider);
  const fresh: Prepared = {
    baseUrl,
    headers: {
      'content-type': 'application/json',
      ...defaultHeaders,
      ...revealHeaders(provider.headers),
      ...(typeof key === 'string' ? dialects[dialect].authHeaders(key) : {}),
    },
    authorizer: typeof key === 'string' ? undefined : key,
    isProxied: provider.isProxied ?? false,
    target: undefined,
  };
  preparedByProvider.set(provider, fresh);
  return fresh;
}

/** Shorter words of a header, such as `Bearer` or `true`, are no secrets. */
const headerSecretLengthMin = 8;

/** What no message of this provider may reveal: its key, and the secrets in its own headers. */
export function secretsOf(provider: Provider): readonly string[] {
  const { apiKey, headers } = provider;
  const ofKey = apiKey ? (preparedFor(provider).authorizer?.secrets ?? [apiKey.reveal()]) : [];
  const tokens = Object.values(headers).flatMap((header) => header.reveal().split(/\s+/));
  const secrets = [...ofKey, ...tokens.filter((token) => token.length >= headerSecretLengthMin)];
  // The longest first: of a secret that begins with another one, the end would stay.
  return secrets.sort((one, other) => other.length - one.length);
}

function revealHeaders(headers: Provider['headers']): Record<string, string> {
  const entries = Object.entries(headers).map(([name, at]) => [name.toLowerCase(), at.reveal()]);
  return Object.fromEntries(entries);
}

/** The codes for a process or a machine that has no place for another connection. */
const tooManyOpenCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);

/** Throws when the call failed on our side: then no other provider need be tried or blamed. */
export function throwLocalFailure(error: unknown, isShuttingDown: boolean): void {
  if (isShuttingDown) throw shuttingDown();
  if (!tooManyOpenCodes.has(failureCode(error) ?? '')) return;
  const message = 'This Tollgate has too many connections open; try again shortly.';
  const details = { retryAfterSeconds: 1, cause: error };
  throw new GatewayError('service_unavailable', message, details);
}

/** What a broken connection means. The text of such errors may name hosts; it stays in our log. */
export function connectionFailure(error: unknown, timedOut: boolean): UpstreamFailure {
  if (timedOut) return createFailure('timeout', 'The provider did not answer in time.');
  if (error instanceof RefusedAddress) {
    const message = `The base URL of your credential was refused: ${error.message}`;
    return createFailure('unreachable', message);
  }
  if (error instanceof InvalidKeyError) return createFailure(error.kind, error.message);
  const code = failureCode(error);
  const message = `The provider could not be reached${code ? ` (${code})` : ''}.`;
  return createFailure('unreachable', message);
}
