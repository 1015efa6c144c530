import { failureCode, invalidRequest } from '../core/errors.ts';
import { hostInUrl } from '../core/network-address.ts';
import { callOperatorServer, type OperatorCall } from '../upstream/operator-call.ts';
import type { Args } from './command.ts';

/**
 * The address at which to call a gateway on this machine; loopback if it listens on all addresses.
 */
export function ownAddress({ host, port }: { readonly host: string; readonly port: number }) {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return `http://${hostInUrl(host)}:${port}`;
}

/**
 * The address in `--url`. People paste it with a slash at the end, or with the `/v1` that other
 * clients want.
 */
export function urlOption(args: Args): string | undefined {
  const url = args.text('url');
  if (url === undefined) return undefined;
  if (!/^https?:\/\/[\w.:[\]/~%-]+$/.test(url)) {
    const expected = 'an address such as https://gateway.example.com';
    throw invalidRequest(`--url must be ${expected}, not "${url}".`, 'url');
  }
  return url.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** The gateway's answer; if there is none, throws an error that says what to do. */
export function callGateway(call: OperatorCall, timeoutMs: number): Promise<Response> {
  return callOperatorServer(call, AbortSignal.timeout(timeoutMs)).catch((error: unknown) => {
    const code = failureCode(error);
    const detail = code === undefined ? '' : ` (${code})`;
    const hint = 'start a gateway with "tollgate serve", or name its address with --url';
    throw new Error(`Nothing answers at ${call.url}${detail}: ${hint}.`);
  });
}
