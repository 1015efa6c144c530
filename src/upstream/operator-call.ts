import { usualHeaders, usualOptions } from './usual-call.ts';

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
    // The runtime repeats a call whose connection was closed while it was idle, but no POST.
    ...(body === undefined ? {} : { body, keepalive: false }),
  };
  return fetch(url, init);
}
