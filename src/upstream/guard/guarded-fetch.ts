/**
 * How pictures and webhooks reach an address that a user gave us. Every hop is checked in full,
 * dialled at the checked address, and bounded in bytes and time; what goes wrong comes back as a
 * sentence. (A tenant's own base URL is dialled the same way, as a provider, in client.ts.)
 */
import { boundedCall, unlessAborted } from '../../core/deadlines.ts';
import { failureCode } from '../../core/errors.ts';
import { type AddressPolicy, publicOnly } from './address-policy.ts';
import {
  callPinned,
  connectFailures,
  type GuardedTarget,
  guardTarget,
  isUntrusted,
  type ResolveHost,
  resolveBySystem,
} from './pinned-call.ts';

interface GuardedFetchSetup extends Partial<AddressPolicy> {
  readonly resolve?: ResolveHost;
  /** PEM of the authorities to trust instead of the built-in ones. */
  readonly trustedCertificates?: string;
}

interface GuardedFetchOptions {
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal;
  /** With 0 the body is not read: the status is the whole answer. */
  readonly bodyBytesMax: number;
  /** Bytes that the bodies of several calls may take together; each call subtracts its own. */
  readonly byteBudget?: { bytes: number };
  /** For everything together: resolving, every hop, the last byte of the body. */
  readonly timeoutMs: number;
  /** One more `host:port` that may be called wherever it leads, in this call. */
  readonly vouchedHost?: string;
}

/** `ok` means that an answer of any status arrived whole. */
export type GuardedResult =
  | {
      readonly ok: true;
      readonly status: number;
      readonly contentType: string | null;
      readonly bytes: Uint8Array<ArrayBuffer>;
    }
  | { readonly ok: false; readonly reason: string };

export type GuardedFetch = (url: string, options: GuardedFetchOptions) => Promise<GuardedResult>;

/** Image hosts redirect once or twice (short link, then storage); more is a loop or a probe. */
const redirectsMax = 3;

const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Only we set these headers: with them a caller could reframe the request or wake a proxy. */
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

/** All headers that another origin gets after a redirect: signatures and keys are for the first. */
const harmlessHeaders: ReadonlySet<string> = new Set(['accept', 'accept-language', 'user-agent']);

interface GuardedCall {
  readonly policy: AddressPolicy;
  readonly resolve: ResolveHost;
  readonly trustedCertificates: string | undefined;
  readonly options: GuardedFetchOptions;
  /** Fires at the time limit, when the caller gives up, and when the call is over. */
  readonly signal: AbortSignal;
}

export function createGuardedFetch(setup: GuardedFetchSetup = {}): GuardedFetch {
  const { resolve = resolveBySystem, trustedCertificates, ...allowed } = setup;
  const policy = { ...publicOnly, ...allowed };
  return (url, options) =>
    boundedCall(options.timeoutMs, options.signal, (signal) =>
      fetchWithRedirects(url, {
        policy: withVouchedHost(policy, options.vouchedHost),
        resolve,
        trustedCertificates,
        options,
        signal,
      }),
    );
}

function withVouchedHost(policy: AddressPolicy, host: string | undefined): AddressPolicy {
  return host === undefined ? policy : { ...policy, allowHosts: [...policy.allowHosts, host] };
}

async function fetchWithRedirects(firstUrl: string, call: GuardedCall): Promise<GuardedResult> {
  const { options } = call;
  // A POST does not follow redirects.
  const mayFollow = (options.method ?? 'GET') === 'GET';
  let headers = requestHeaders(options.headers ?? {});
  if (headers === null) return refused('The request has a malformed header.');
  let text = firstUrl;
  for (let redirects = 0; ; redirects += 1) {
    // Resolving cannot be interrupted, so the wait for it is.
    const checked = guardTarget(text, call.policy, call.resolve);
    const target = (await unlessAborted(checked, call.signal)) ?? timeoutMessage(call);
    if (typeof target === 'string') {
      return refused(redirects === 0 ? target : `A redirect was refused: ${lowerFirst(target)}`);
    }
    const response = await send(target, headers, call);
    if (typeof response === 'string') return refused(response);
    const location = response.headers.get('location');
    if (!mayFollow || location === null || !redirectStatuses.has(response.status)) {
      return await readAnswer(response, call);
    }
    await discard(response);
    if (redirects === redirectsMax) {
      return refused(`The address redirects more than ${redirectsMax} times.`);
    }
    const next = URL.parse(location, target.url.href);
    if (next === null) return refused('The address redirects to a malformed URL.');
    if (target.url.protocol === 'https:' && next.protocol === 'http:') {
      return refused('The address redirects from https to http.');
    }
    if (next.origin !== target.url.origin) headers = keepHarmlessHeaders(headers);
    text = next.href;
  }
}

/** The answer's head, or one sentence saying why there is none. */
async function send(
  target: GuardedTarget,
  headers: Headers,
  call: GuardedCall,
): Promise<Response | string> {
  const { method = 'GET', body } = call.options;
  const init = {
    method,
    headers: new Headers(headers),
    signal: call.signal,
    ...(body === undefined ? {} : { body }),
  };
  try {
    return await callPinned(target, init, call.trustedCertificates);
  } catch (error) {
    return failureMessage(error, call);
  }
}

async function readAnswer(response: Response, call: GuardedCall): Promise<GuardedResult> {
  const { bodyBytesMax, byteBudget = { bytes: bodyBytesMax } } = call.options;
  const { status } = response;
  const contentType = response.headers.get('content-type');
  if (bodyBytesMax === 0) {
    await discard(response);
    return { ok: true, status, contentType, bytes: new Uint8Array() };
  }
  const tooLarge = `The answer of the address is larger than ${bodyBytesMax} bytes.`;
  // We asked for identity, so anything else is a mistake or a bomb: 317 bytes of brotli can hold
  // 200 MiB.
  const encoding = response.headers.get('content-encoding') ?? 'identity';
  if (encoding.toLowerCase() !== 'identity') {
    return refused('The address answered with a compressed body.');
  }
  if (Number(response.headers.get('content-length')) > bodyBytesMax) return refused(tooLarge);
  const chunks: Uint8Array[] = [];
  let bytesRead = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytesRead += chunk.byteLength;
      if (bytesRead > bodyBytesMax) return refused(tooLarge);
      byteBudget.bytes -= chunk.byteLength;
      if (byteBudget.bytes < 0) return refused('It is too large together with the others.');
      chunks.push(chunk);
    }
  } catch (error) {
    return refused(failureMessage(error, call));
  }
  return { ok: true, status, contentType, bytes: new Uint8Array(Bun.concatArrayBuffers(chunks)) };
}

/** A body that is of no interest; left unread it would keep its connection. */
async function discard(response: Response): Promise<void> {
  try {
    await response.body?.cancel();
  } catch {
    // A body that already failed has nothing left to close.
  }
}

function timeoutMessage(call: GuardedCall): string {
  if (call.options.signal?.aborted) return 'The request was cancelled.';
  return `The address did not answer in full within ${call.options.timeoutMs} ms.`;
}

function failureMessage(error: unknown, call: GuardedCall): string {
  if (call.signal.aborted) return timeoutMessage(call);
  const code = failureCode(error) ?? '';
  if (connectFailures.has(code)) return 'The address could not be reached.';
  if (isUntrusted(code)) {
    return 'The certificate of the address is not trusted or is for another name.';
  }
  return 'The address broke off or did not answer in valid HTTP.';
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

function refused(reason: string): GuardedResult {
  return { ok: false, reason };
}
