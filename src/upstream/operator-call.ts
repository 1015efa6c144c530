import { connectionsTo } from './connections.ts';

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
  const options = {
    method,
    signal,
    headers: {
      accept: 'application/json',
      // A packed answer could not be bounded before it is unpacked.
      'accept-encoding': 'identity',
      'user-agent': 'tollgate',
      ...headers,
    },
    redirect: 'manual',
    decompress: false,
    ...(body === undefined ? {} : { body }),
    ...(url.startsWith('https:') ? { tls: { rejectUnauthorized: true } } : {}),
    // A proxy of the environment is for the world outside, not for this machine.
    ...(/^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url) ? { proxy: false } : {}),
  };
  // Some of these the runtime knows and its types do not.
  const init = options as BunFetchRequestInit;
  return method === 'POST' ? connectionsTo(url).post(url, init) : fetch(url, init);
}
