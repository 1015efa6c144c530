import { connectionsTo, usualHeaders, usualOptions } from './connections.ts';

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
    ...usualOptions(url),
    method,
    signal,
    headers: { accept: 'application/json', ...usualHeaders, ...headers },
    ...(body === undefined ? {} : { body }),
  };
  return method === 'POST' ? connectionsTo(url).post(url, init) : fetch(url, init);
}
