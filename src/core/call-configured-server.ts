import { isLoopback } from './network-address.ts';

/** The headers of every call to a server that the operator configured. */
export const defaultHeaders: Readonly<Record<string, string>> = {
  // A compressed response would have to be decompressed before its size could be limited.
  'accept-encoding': 'identity',
  'user-agent': 'tollgate',
};

/**
 * Returns fetch options for a call to a configured server. The runtime's types omit some options.
 */
export function defaultFetchOptions(url: string): BunFetchRequestInit {
  const options = {
    // Our own deadlines apply. The runtime's timeout would interrupt image edits.
    timeout: false,
    // A redirect would send the credential to another server.
    redirect: 'manual',
    decompress: false,
    // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
    ...(url.startsWith('https:') ? { tls: { rejectUnauthorized: true } } : {}),
    // Calls to this machine bypass the proxy that the environment sets.
    ...(isLoopback(url) ? { proxy: false } : {}),
  };
  return options as BunFetchRequestInit;
}

/** A call to a server that the operator configured. Clients can't change its URL. */
export interface ServerCall {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Bypasses the proxy of the environment, for servers that only this machine can reach. */
  readonly isDirect?: boolean;
}

/**
 * Calls a server that the operator configured. It may have a private address, so the address policy
 * for user-provided URLs doesn't apply. Redirects aren't followed, and nothing is decompressed.
 */
export function callConfiguredServer(call: ServerCall, signal: AbortSignal): Promise<Response> {
  const { method, url, headers, body, isDirect } = call;
  const direct = isDirect ? ({ proxy: false } as object) : {};
  const init: BunFetchRequestInit = {
    ...defaultFetchOptions(url),
    ...direct,
    method,
    signal,
    headers: { accept: 'application/json', ...defaultHeaders, ...headers },
    // Send a POST on a new connection. A reused connection may just have been closed by the server,
    // and the runtime doesn't retry a POST that fails because of that.
    ...(body === undefined ? {} : { body, keepalive: false }),
  };
  return fetch(url, init);
}
