/**
 * Calls URLs that users provide, such as images and webhooks. Each hop is checked, pinned to its
 * checked address, and limited in bytes and time. Failures are returned as sentences. Base URLs of
 * tenants are called the same way by provider-client.ts.
 */
import { boundedCall, unlessAborted } from '../../core/deadlines.ts';
import { failureCode, GatewayError } from '../../core/errors.ts';
import { type AddressPolicy, publicOnly } from './address-policy.ts';
import { type ResolveHost, resolverFor } from './host-names.ts';
import {
  callPinned,
  connectFailures,
  type GuardedTarget,
  guardTarget,
  isUntrusted,
} from './pinned-call.ts';

interface GuardedFetchSetup extends Partial<AddressPolicy> {
  readonly resolve?: ResolveHost;
  /** PEM certificates of the authorities to trust instead of the built-in ones. */
  readonly trustedCertificates?: string;
}

export interface GuardedFetchOptions {
  /** The tenant whose URL is called. */
  readonly tenantId: string;
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal;
  /** 0 means that only the status is read. */
  readonly bodyBytesMax: number;
  /** A byte limit shared by several calls. Each call subtracts the size of its body. */
  readonly byteBudget?: { bytes: number };
  /** Called before bytes of the body are read. Throws if there is no memory for them. */
  reserveMemory?(bytes: number): void;
  /** Limits the full call: name resolution, all redirects, and the body. */
  readonly timeoutMs: number;
  /** A `host:port` that this call may reach, regardless of the address it resolves to. */
  readonly allowedHost?: string;
}

/** `ok` means that a complete response of any status arrived. */
export type GuardedResult =
  | {
      readonly ok: true;
      readonly status: number;
      readonly contentType: string | null;
      readonly bytes: Uint8Array<ArrayBuffer>;
    }
  | { readonly ok: false; readonly reason: string };

export type GuardedFetch = (url: string, options: GuardedFetchOptions) => Promise<GuardedResult>;

/** Image hosts redirect once or twice, from a short link to a storage URL. */
const redirectsMax = 3;

const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Callers can't set these headers, because they would change the framing or affect a proxy. */
const connectionHeaders = [
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** The only headers sent to another origin after a redirect. Others may contain secrets. */
const harmlessHeaders: ReadonlySet<string> = new Set(['accept', 'accept-language', 'user-agent']);

interface GuardedCall {
  readonly policy: AddressPolicy;
  readonly resolve: ResolveHost;
  readonly trustedCertificates: string | undefined;
  readonly options: GuardedFetchOptions;
  /** Aborts at the time limit, when the caller aborts, and when the call ends. */
  readonly signal: AbortSignal;
}

export function createGuardedFetch(setup: GuardedFetchSetup = {}): GuardedFetch {
  const { resolve, trustedCertificates, ...allowed } = setup;
  const policy = { ...publicOnly, ...allowed };
  return (url, options) =>
    boundedCall(options.timeoutMs, options.signal, (signal) =>
      fetchWithRedirects(url, {
        policy: withAllowedHost(policy, options.allowedHost),
        resolve: resolve ?? resolverFor(options.tenantId),
        trustedCertificates,
        options,
        signal,
      }),
    );
}

function withAllowedHost(policy: AddressPolicy, host: string | undefined): AddressPolicy {
  return host === undefined ? policy : { ...policy, allowHosts: [...policy.allowHosts, host] };
}

async function fetchWithRedirects(firstUrl: string, call: GuardedCall): Promise<GuardedResult> {
  const { options } = call;
  // POST requests don't follow redirects.
  const mayFollow = (options.method ?? 'GET') === 'GET';
  let headers = requestHeaders(options.headers ?? {});
  if (headers === null) return rejected('The request has a malformed header.');
  let text = firstUrl;
  for (let redirects = 0; ; redirects += 1) {
    // Name resolution can't be aborted, so abort only the wait for it.
    const checking = guardTarget(text, call.policy, call.resolve);
    const checked = await unlessAborted(checking, call.signal);
    if (!checked?.ok) {
      if (!checked) return rejected(timeoutMessage(call));
      const { reason } = checked;
      return rejected(redirects === 0 ? reason : `A redirect was rejected: ${lowerFirst(reason)}`);
    }
    const { target } = checked;
    let response: Response;
    try {
      response = await send(target, headers, call);
    } catch (error) {
      return rejected(failureMessage(error, call));
    }
    const location = response.headers.get('location');
    if (!mayFollow || location === null || !redirectStatuses.has(response.status)) {
      return await readAnswer(response, call);
    }
    await discard(response);
    if (redirects === redirectsMax) {
      return rejected(`The URL redirects more than ${redirectsMax} times.`);
    }
    const next = URL.parse(location, target.url.href);
    if (next === null) return rejected('The URL redirects to a malformed URL.');
    if (target.url.protocol === 'https:' && next.protocol === 'http:') {
      return rejected('The URL redirects from https to http.');
    }
    if (next.origin !== target.url.origin) headers = keepHarmlessHeaders(headers);
    text = next.href;
  }
}

function send(target: GuardedTarget, headers: Headers, call: GuardedCall): Promise<Response> {
  const { method = 'GET', body } = call.options;
  const init = {
    method,
    headers: new Headers(headers),
    signal: call.signal,
    ...(body === undefined ? {} : { body }),
  };
  return callPinned(target, init, call.trustedCertificates);
}

async function readAnswer(response: Response, call: GuardedCall): Promise<GuardedResult> {
  const { bodyBytesMax, byteBudget = { bytes: bodyBytesMax }, reserveMemory } = call.options;
  const { status } = response;
  const contentType = response.headers.get('content-type');
  if (bodyBytesMax === 0) {
    await discard(response);
    return { ok: true, status, contentType, bytes: new Uint8Array() };
  }
  const tooLarge = `The response is larger than ${bodyBytesMax} bytes.`;
  // The request didn't accept compression. 317 bytes of brotli can decompress to 200 MiB.
  const encoding = response.headers.get('content-encoding') ?? 'identity';
  if (encoding.toLowerCase() !== 'identity') {
    return rejected('The server sent a compressed response.');
  }
  const declaredBytes = Number(response.headers.get('content-length')) || 0;
  if (declaredBytes > bodyBytesMax) return rejected(tooLarge);
  let countedBytes = 0;
  /** Returns whether a body of this size fits beside the other downloads of the request. */
  const fits = (size: number) => {
    if (size <= countedBytes) return true;
    byteBudget.bytes -= size - countedBytes;
    if (byteBudget.bytes < 0) return false;
    reserveMemory?.(size - countedBytes);
    countedBytes = size;
    return true;
  };
  const tooLargeTogether = "The total size of this request's downloads exceeds the limit.";
  if (!fits(declaredBytes)) return rejected(tooLargeTogether);
  const chunks: Uint8Array[] = [];
  let bytesRead = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytesRead += chunk.byteLength;
      if (bytesRead > bodyBytesMax) return rejected(tooLarge);
      if (!fits(bytesRead)) return rejected(tooLargeTogether);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    return rejected(failureMessage(error, call));
  }
  return { ok: true, status, contentType, bytes: new Uint8Array(Bun.concatArrayBuffers(chunks)) };
}

/** Cancels an unused body, which would otherwise keep its connection open. */
async function discard(response: Response): Promise<void> {
  try {
    await response.body?.cancel();
  } catch {
    // A body that has already failed can't be canceled.
  }
}

function timeoutMessage(call: GuardedCall): string {
  if (call.options.signal?.aborted) return 'The request was canceled.';
  return `The server didn't send a complete response within ${call.options.timeoutMs} ms.`;
}

function failureMessage(error: unknown, call: GuardedCall): string {
  if (call.signal.aborted) return timeoutMessage(call);
  const code = failureCode(error) ?? '';
  if (connectFailures.has(code)) return "The server can't be reached.";
  if (isUntrusted(code)) return "The server's certificate isn't trusted or is for another name.";
  return "The server closed the connection or didn't respond with valid HTTP.";
}

function requestHeaders(provided: Readonly<Record<string, string>>): Headers | null {
  let headers: Headers;
  try {
    headers = new Headers(provided);
  } catch {
    return null;
  }
  for (const name of connectionHeaders) headers.delete(name);
  headers.set('accept-encoding', 'identity');
  if (!headers.has('user-agent')) headers.set('user-agent', 'tollgate');
  return headers;
}

function keepHarmlessHeaders(headers: Headers): Headers {
  const harmless = new Headers({ 'accept-encoding': 'identity' });
  for (const [name, value] of headers) {
    if (harmlessHeaders.has(name)) harmless.set(name, value);
  }
  return harmless;
}

function lowerFirst(sentence: string): string {
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}

function rejected(reason: string): GuardedResult {
  return { ok: false, reason };
}
