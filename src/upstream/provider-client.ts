import type { Provider } from '../config/config.ts';
import { defaultFetchOptions, defaultHeaders } from '../core/call-configured-server.ts';
import { failureCode, GatewayError, shuttingDown } from '../core/errors.ts';
import type { StreamedContent } from '../core/form.ts';
import { knownCredentials } from '../core/known-credentials.ts';
import type { UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import { createFailure, malformed } from '../dialects/failure.ts';
import { dialects } from '../dialects/registry.ts';
import { bodyFromBytes } from '../dialects/streamed-body.ts';
import { type ConnectionPool, poolFor } from './connection/pool.ts';
import { type HttpResponse, toHttpResponse } from './connection/response.ts';
import { formatHeaders, formatRequestHead, RoundTrip } from './connection/round-trip.ts';
import { type CheckAddress, callPinned, RejectedAddress, targetOf } from './guard/pinned-call.ts';
import { type Authorizer, credentialFor, InvalidKeyError } from './keys/authorizer.ts';
import type { UpstreamCall } from './upstream-call.ts';

/**
 * Sends a request to a provider. All such calls use this function. It builds the URL from the
 * provider's own base URL, so nothing in a client's request can send the credential elsewhere.
 * `check` is set if a tenant chose the base URL.
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

/** Sends a GET request with the provider's key, for free endpoints such as model lists. */
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

/** Sends a request with headers from an authorizer. If they expired, retries once with new ones. */
async function sendAuthorized(
  authorizer: Authorizer,
  prepared: Prepared,
  request: UpstreamRequest,
  upstreamCall: UpstreamCall,
  check: CheckAddress | undefined,
): Promise<HttpResponse> {
  const { path } = request;
  const body = isStreamed(request.body) ? request.body : fullBody(request.body);
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
  if (check || prepared.isProxied || isStreamed(body))
    return fetchWithRuntime(prepared, request, upstreamCall, check);
  prepared.target ??= pooledTargetFor(prepared);
  const { target } = prepared;
  const headerText = headers ? formatHeaders({ ...target.headers, ...headers }) : target.headerText;
  const { start, rest } = splitBody(body);
  const bytes = Buffer.byteLength(start) + (rest?.length ?? 0);
  const head = formatRequestHead(target.path + path, headerText, bytes);
  const trip = new RoundTrip({ start: head + start, rest }, prepared.name);
  upstreamCall.bind(trip);
  target.pool.start(trip);
  return trip.response;
}

type BufferedBody = Exclude<UpstreamRequest['body'], StreamedContent>;

function isStreamed(body: UpstreamRequest['body']): body is StreamedContent {
  return typeof body === 'object' && 'chunks' in body;
}

/** A longer body is sent separately, because joining it to the head would copy it. */
const joinedLengthMax = 16 * 1024;

function splitBody(body: BufferedBody): {
  readonly start: string;
  readonly rest: Uint8Array | undefined;
} {
  if (typeof body !== 'string') return 'rest' in body ? body : { start: '', rest: body };
  if (body.length <= joinedLengthMax) return { start: body, rest: undefined };
  return { start: '', rest: Buffer.from(body) };
}

/** Joins a body that consists of two parts. */
function fullBody(body: BufferedBody): string | Uint8Array {
  return typeof body === 'object' && 'rest' in body
    ? Buffer.concat([Buffer.from(body.start), body.rest])
    : body;
}

function bytesOf(body: BufferedBody): Uint8Array {
  const full = fullBody(body);
  return typeof full === 'string' ? Buffer.from(full) : full;
}

/** Calls with the runtime's fetch, which supports proxies and streamed request bodies. */
async function fetchWithRuntime(
  { baseUrl, headers }: Prepared,
  { path, body, headers: requestHeaders }: UpstreamRequest,
  upstreamCall: UpstreamCall,
  check: CheckAddress | undefined,
): Promise<HttpResponse> {
  const { signal } = upstreamCall;
  const sent = { isAccepted: false, cancel: () => undefined };
  upstreamCall.bind(sent);
  const onSent = () => {
    sent.isAccepted = true;
  };
  const url = baseUrl + path;
  const allHeaders = new Headers({ ...headers, ...requestHeaders });
  const content = isStreamed(body) ? body : bodyFromBytes(bytesOf(body));
  allHeaders.set('content-length', String(content.bytes));
  const call = {
    ...defaultFetchOptions(baseUrl),
    method: 'POST',
    headers: allHeaders,
    body: reportingEnd(content.chunks(), onSent),
    // A stream can't be sent again, so it doesn't reuse a connection that may have been closed.
    keepalive: false,
    signal,
  };
  const response = check
    ? await callPinned(await targetOf(url, check, signal), call)
    : await fetch(url, call);
  sent.isAccepted = response.ok;
  return toHttpResponse(response);
}

/** The runtime requests the end of a body only after it has sent the last chunk. */
async function* reportingEnd<T>(chunks: AsyncIterable<T>, onEnd: () => void): AsyncGenerator<T> {
  yield* chunks;
  onEnd();
}

interface Prepared {
  readonly name: string;
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Set for keys that aren't sent unchanged. */
  readonly authorizer: Authorizer | undefined;
  readonly isProxied: boolean;
  /**
   * Created by the first call. Stays undefined for base URLs that tenants chose, because their
   * number isn't bounded.
   */
  target: PooledTarget | undefined;
}

/** The connection pool and precomputed headers of a provider. */
interface PooledTarget {
  readonly pool: ConnectionPool;
  /** The path of the base URL. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The same headers in HTTP/1.1 format. */
  readonly headerText: string;
}

function pooledTargetFor({ baseUrl, headers: configured }: Prepared): PooledTarget {
  const { host, pathname } = new URL(baseUrl);
  const headers = { host, accept: '*/*', connection: 'keep-alive', ...configured };
  const path = pathname.replace(/\/$/, '');
  return { pool: poolFor(baseUrl), path, headers, headerText: formatHeaders(headers) };
}

const preparedByProvider = new WeakMap<Provider, Prepared>();

/** Returns what all calls to a provider share. Computed once per provider. */
function preparedFor(provider: Provider): Prepared {
  const known = preparedByProvider.get(provider);
  if (known) return known;
  const { name, baseUrl, dialect } = provider;
  const key = credentialFor(provider);
  const fresh: Prepared = {
    name,
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
  for (const secret of typeof key === 'string' ? [key] : (key?.secrets ?? []))
    knownCredentials.add(secret);
  return fresh;
}

/** Shorter words in headers, such as `Bearer` or `true`, aren't secrets. */
const headerSecretLengthMin = 8;

/** Returns the texts to redact from a provider's messages: its key and the words in its headers. */
export function secretsOf(provider: Provider): readonly string[] {
  const { apiKey, keys, workload, headers } = provider;
  if (keys) return [...new Set(keys.flatMap((key) => secretsOf(key.provider)))].sort(longestFirst);
  const authorizer = apiKey || workload ? preparedFor(provider).authorizer : undefined;
  const ofKey = authorizer?.secrets ?? (apiKey ? [apiKey.reveal()] : []);
  const tokens = Object.values(headers).flatMap((header) => header.reveal().split(/\s+/));
  const secrets = [...ofKey, ...tokens.filter((token) => token.length >= headerSecretLengthMin)];
  return secrets.sort(longestFirst);
}

/** One secret may begin with another. */
function longestFirst(a: string, b: string): number {
  return b.length - a.length;
}

function revealHeaders(headers: Provider['headers']): Record<string, string> {
  const entries = Object.entries(headers).map(([name, at]) => [name.toLowerCase(), at.reveal()]);
  return Object.fromEntries(entries);
}

/** The codes for a process or a system without free file descriptors. */
const tooManyOpenCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);

/** Throws if this gateway caused the failure. In that case, no other provider is tried. */
export function throwLocalFailure(error: unknown, isShuttingDown: boolean): void {
  if (isShuttingDown) throw shuttingDown();
  if (!tooManyOpenCodes.has(failureCode(error) ?? '')) return;
  const message = 'This gateway has too many open connections. Try again shortly.';
  const details = { retryAfterSeconds: 1, cause: error };
  throw new GatewayError('service_unavailable', message, details);
}

/**
 * Returns the failure for a body that a broken connection may have cut, or undefined if the end of
 * the connection proves its end. Over TLS it doesn't, because the runtime reports the same for a
 * connection that was cut and for one that TLS closed (close_notify).
 */
export function cutFailure(
  { baseUrl }: Provider,
  { endsWithConnection }: HttpResponse,
): UpstreamFailure | undefined {
  if (!endsWithConnection || !baseUrl.startsWith('https:')) return undefined;
  return malformed('The provider sent a response without its length, so it may be incomplete.');
}

/** Returns the failure for a connection error, without its text, which may contain host names. */
export function connectionFailure(error: unknown, timedOut: boolean): UpstreamFailure {
  if (timedOut) return createFailure('timeout', "The provider didn't respond in time.");
  if (error instanceof RejectedAddress) {
    const message = `The base URL of your credential was rejected: ${error.message}`;
    return createFailure('unreachable', message);
  }
  if (error instanceof InvalidKeyError) return createFailure(error.kind, error.message);
  const code = failureCode(error);
  const message = `The provider can't be reached${code ? ` (${code})` : ''}.`;
  return createFailure('unreachable', message);
}
