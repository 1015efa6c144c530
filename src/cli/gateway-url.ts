import { callConfiguredServer, type ServerCall } from '../core/call-configured-server.ts';
import { failureCode, invalidRequest } from '../core/errors.ts';
import { hostInUrl } from '../core/network-address.ts';
import type { Args } from './command.ts';

/**
 * Returns the URL for calling a gateway on this machine. If the gateway listens on all addresses,
 * returns a loopback URL.
 */
export function localUrl({ host, port }: { readonly host: string; readonly port: number }) {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return `http://${hostInUrl(host)}:${port}`;
}

/** Returns the URL in `--url`, without the trailing slash or `/v1` that clients' settings have. */
export function urlOption(args: Args): string | undefined {
  const url = args.text('url');
  if (url === undefined) return undefined;
  if (!/^https?:\/\/[\w.:[\]/~%-]+$/.test(url)) {
    const expected = 'a URL such as https://gateway.example.com';
    throw invalidRequest(`--url must be ${expected}, not "${url}".`, 'url');
  }
  return url.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** Calls a gateway. Throws an error that says what to do if it can't be reached. */
export function callGateway(call: ServerCall, timeoutMs: number): Promise<Response> {
  return callConfiguredServer(call, AbortSignal.timeout(timeoutMs)).catch((error: unknown) => {
    const code = failureCode(error);
    const detail = code === undefined ? '' : ` (${code})`;
    const hint = 'Start a gateway with "tollgate serve", or set its URL with --url.';
    throw new Error(`No gateway answers at ${call.url}${detail}. ${hint}`);
  });
}
