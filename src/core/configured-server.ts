import { isLoopback } from './network-address.ts';

/** The headers of every call to a server that the operator configured. */
export const defaultHeaders: Readonly<Record<string, string>> = {
  // A compressed answer would have to be decompressed before its size could be limited.
  'accept-encoding': 'identity',
  'user-agent': 'tollgate',
};

/** Returns the fetch options of such a call. The runtime's types lack some of them. */
export function defaultFetchOptions(url: string): BunFetchRequestInit {
  const options = {
    // Our own deadlines apply. The runtime's timeout would interrupt image edits.
    timeout: false,
    // A redirect would send the credential to another server.
    redirect: 'manual',
    decompress: false,
    // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
    ...(url.startsWith('https:') ? { tls: { rejectUnauthorized: true } } : {}),
    // The proxy variables of the environment don't apply to this machine.
    ...(isLoopback(url) ? { proxy: false } : {}),
  };
  return options as BunFetchRequestInit;
}

/** A call to a server that the operator configured. Clients can't change its URL. */
export interface ServerCall {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * Calls a server that the operator configured. It may have a private address, so the address policy
 * for user-provided URLs doesn't apply. Redirects aren't followed, and nothing is decompressed.
 */
export function callConfiguredServer(call: ServerCall, signal: AbortSignal): Promise<Response> {
  const { method, url, headers, body } = call;
  const init: BunFetchRequestInit = {
    ...defaultFetchOptions(url),
    method,
    signal,
    headers: { accept: 'application/json', ...defaultHeaders, ...headers },
    // The runtime doesn't retry a POST whose reused connection was closed by the server.
    ...(body === undefined ? {} : { body, keepalive: false }),
  };
  return fetch(url, init);
}
