import type { Provider } from '../config/config.ts';
import type { DialectName } from '../config/provider-schema.ts';
import { GatewayError, shuttingDown } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import type { LongBytes } from '../core/upload.ts';
import type { UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import { ownFailure } from '../dialects/failure.ts';
import { answerOf, type HttpAnswer } from './connection/answer.ts';
import { type Connections, connectionsTo } from './connection/connections.ts';
import { headOf, linesOf } from './connection/request-head.ts';
import { RoundTrip } from './connection/round-trip.ts';
import { callPinned } from './guard/pinned-call.ts';
import { type CheckAddress, RefusedAddress, targetOf } from './guard/user-address.ts';
import { type Pass, useOfKey } from './keys/pass.ts';
import { UnusableKey } from './keys/unusable-key.ts';
import type { Line } from './line.ts';
import { usualHeaders, usualOptions } from './usual-call.ts';

/**
 * The one door to providers. A credential belongs to its provider's origin: the address is built
 * from that provider's own base URL here, and nothing a client sends can lead it elsewhere.
 * `check` is given when a tenant chose that base URL: it is dialled only where the check allows.
 */
export function send(
  provider: Provider,
  request: UpstreamRequest,
  line: Line,
  check: CheckAddress | undefined,
): Promise<HttpAnswer> {
  const prepared = preparedFor(provider);
  if (prepared.pass) return sendWithPass(prepared.pass, prepared, request, line, check);
  return dial(prepared, request, line, check);
}

/** Asks a provider for something that is free and changes nothing, with its key. */
export async function ask(
  provider: Provider,
  path: string,
  signal: AbortSignal,
): Promise<Response> {
  const { baseUrl, headers, pass } = preparedFor(provider);
  const url = baseUrl + path;
  const shown = pass && (await pass.headersFor({ url, contentType: '', body: '' }, signal));
  return fetch(url, { ...usualOptions(url), headers: { ...headers, ...shown }, signal });
}

/** A provider that refuses headers of a kind it took before is shown new ones, once. */
async function sendWithPass(
  pass: Pass,
  prepared: Prepared,
  request: UpstreamRequest,
  line: Line,
  check: CheckAddress | undefined,
): Promise<HttpAnswer> {
  const { path } = request;
  const body = isLong(request.body) ? request.body : whole(request.body);
  const url = prepared.baseUrl + path;
  for (let isLast = false; ; isLast = true) {
    const { 'content-type': contentType = '' } = { ...prepared.headers, ...request.headers };
    const shown = await pass.headersFor({ url, contentType, body }, line.signal);
    const signed = { ...request, body, headers: { ...request.headers, ...shown } };
    const answer = await dial(prepared, signed, line, check);
    if (!pass.isOutdated?.(shown, answer.status) || isLast) return answer;
    answer.body?.cancel();
  }
}

function dial(
  prepared: Prepared,
  request: UpstreamRequest,
  line: Line,
  check: CheckAddress | undefined,
): Promise<HttpAnswer> {
  const { body, path, headers } = request;
  if (check || prepared.isProxied || isLong(body)) return fetched(prepared, request, line, check);
  prepared.way ??= wayFor(prepared);
  const { way } = prepared;
  const lines = headers ? linesOf({ ...way.headers, ...headers }) : way.lines;
  const { start, rest } = pieces(body);
  const bytes = Buffer.byteLength(start) + (rest?.length ?? 0);
  const head = headOf(way.path + path, lines, bytes);
  const trip = new RoundTrip({ start: head + start, rest });
  line.bind(trip);
  way.connections.start(trip);
  return trip.answered;
}

type Held = Exclude<UpstreamRequest['body'], LongBytes>;

function isLong(body: UpstreamRequest['body']): body is LongBytes {
  return typeof body === 'object' && 'chunks' in body;
}

/** A longer text is sent as bytes of its own: joined to the head, it would have to be copied. */
const joinedLengthMax = 16 * 1024;

function pieces(body: Held): { readonly start: string; readonly rest: Uint8Array | undefined } {
  if (typeof body !== 'string') return 'rest' in body ? body : { start: '', rest: body };
  if (body.length <= joinedLengthMax) return { start: body, rest: undefined };
  return { start: '', rest: Buffer.from(body) };
}

/** The whole body in one piece, where that is needed. */
function whole(body: Held): string | Uint8Array {
  return typeof body === 'object' && 'rest' in body
    ? Buffer.concat([Buffer.from(body.start), body.rest])
    : body;
}

/** Calls through the runtime, which knows proxies and can read a body while it sends it. */
async function fetched(
  { baseUrl, headers, isProxied }: Prepared,
  { path, body, headers: more }: UpstreamRequest,
  { signal }: Line,
  check: CheckAddress | undefined,
): Promise<HttpAnswer> {
  const url = baseUrl + path;
  const shown = new Headers({ ...headers, ...more });
  if (isLong(body)) shown.set('content-length', String(body.bytes));
  const call = {
    ...usualOptions(baseUrl),
    method: 'POST',
    headers: shown,
    body: isLong(body) ? body.chunks() : whole(body),
    // Reuses no connection for a long body, which could not be sent again if that one was closed.
    keepalive: !isLong(body) && !isProxied,
    signal,
  };
  if (!check) return answerOf(await fetch(url, call));
  return answerOf(await callPinned(await targetOf(url, check, signal), call));
}

interface Prepared {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Makes the headers for keys that are more than a word in a header. */
  readonly pass: Pass | undefined;
  readonly isProxied: boolean;
  /**
   * Made by the first call. Stays undefined for an address that a tenant chose: there could be any
   * number of such addresses.
   */
  way: Way | undefined;
}

/** How a provider is called over connections of our own. */
interface Way {
  readonly connections: Connections;
  /** The path of the base URL. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The same headers as they go over the connection. */
  readonly lines: string;
}

function wayFor({ baseUrl, headers: usual }: Prepared): Way {
  const { host, pathname } = new URL(baseUrl);
  const headers = { host, accept: '*/*', connection: 'keep-alive', ...usual };
  const path = pathname.replace(/\/$/, '');
  return { connections: connectionsTo(baseUrl), path, headers, lines: linesOf(headers) };
}

const preparedByProvider = new WeakMap<Provider, Prepared>();

/** What is the same in every call to a provider, put together once. */
function preparedFor(provider: Provider): Prepared {
  const known = preparedByProvider.get(provider);
  if (known) return known;
  const { baseUrl, dialect } = provider;
  const key = useOfKey(provider);
  const fresh: Prepared = {
    baseUrl,
    headers: {
      'content-type': 'application/json',
      ...usualHeaders,
      ...revealed(provider.headers),
      ...(typeof key === 'string' ? authorise[dialect](key) : {}),
    },
    pass: typeof key === 'string' ? undefined : key,
    isProxied: provider.isProxied ?? false,
    way: undefined,
  };
  preparedByProvider.set(provider, fresh);
  return fresh;
}

/** Shorter words of a header, such as `Bearer` or `true`, are no secrets. */
const headerSecretLengthMin = 8;

/** What no message of this provider may reveal: its key, and the secrets in its own headers. */
export function secretsOf(provider: Provider): readonly string[] {
  const { apiKey, headers } = provider;
  const ofKey = apiKey ? (preparedFor(provider).pass?.secrets ?? [apiKey.reveal()]) : [];
  const words = Object.values(headers).flatMap((header) => header.reveal().split(/\s+/));
  const secrets = [...ofKey, ...words.filter((word) => word.length >= headerSecretLengthMin)];
  // The longest first: of a secret that begins with another one, the end would stay.
  return secrets.sort((one, other) => other.length - one.length);
}

function revealed(headers: Provider['headers']): Record<string, string> {
  const shown = Object.entries(headers).map(([name, at]) => [name.toLowerCase(), at.reveal()]);
  return Object.fromEntries(shown);
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

/** The codes for a process or a machine that has no place for another connection. */
const tooManyOpen: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE']);

/** Throws when the call failed on our side: then no other provider need be tried or blamed. */
export function refuseOwnFailure(thrown: unknown, isShuttingDown: boolean): void {
  if (isShuttingDown) throw shuttingDown();
  if (!tooManyOpen.has(failureCode(thrown) ?? '')) return;
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
  const code = failureCode(thrown);
  const message = `The provider could not be reached${code ? ` (${code})` : ''}.`;
  return ownFailure('unreachable', message);
}
