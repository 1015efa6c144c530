import { isLoopback } from '../core/network-address.ts';

/** The headers of every call to a server that the operator configured. */
export const defaultHeaders: Readonly<Record<string, string>> = {
  // Compressed answers would have to be unpacked before they could be bounded.
  'accept-encoding': 'identity',
  'user-agent': 'tollgate',
};

/** The options of such a call by the runtime. Its types do not know some of them. */
export function defaultFetchOptions(url: string): BunFetchRequestInit {
  const options = {
    // Our own deadlines apply; the runtime's would cut image edits short.
    timeout: false,
    // A redirect would carry the credential to wherever the answer points.
    redirect: 'manual',
    decompress: false,
    // An environment variable must not be able to switch certificate checks off.
    ...(url.startsWith('https:') ? { tls: { rejectUnauthorized: true } } : {}),
    // A proxy set in the environment is for the world outside, not for this machine.
    ...(isLoopback(url) ? { proxy: false } : {}),
  };
  return options as BunFetchRequestInit;
}

/** A call to a server that the operator configured and no client can lead elsewhere. */
export interface OperatorCall {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * Such a server may well live at a private address, so the guard for addresses of users is not
 * asked. The answer comes as it is: redirects are not followed, nothing is unpacked.
 */
export function callOperatorServer(call: OperatorCall, signal: AbortSignal): Promise<Response> {
  const { method, url, headers, body } = call;
  const init: BunFetchRequestInit = {
    ...defaultFetchOptions(url),
    method,
    signal,
    headers: { accept: 'application/json', ...defaultHeaders, ...headers },
    // The runtime repeats a call whose connection was closed while it was idle, but no POST.
    ...(body === undefined ? {} : { body, keepalive: false }),
  };
  return fetch(url, init);
}
