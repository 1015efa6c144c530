import { invalidRequest } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import { hostInUrl } from '../core/host-in-url.ts';
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
export function givenAddress(args: Args): string | undefined {
  const given = args.text('url');
  if (given === undefined) return undefined;
  if (!/^https?:\/\/[\w.:[\]/~%-]+$/.test(given)) {
    const wanted = 'an address such as https://gateway.example.com';
    throw invalidRequest(`--url must be ${wanted}, not "${given}".`, 'url');
  }
  return given.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** The gateway's answer; if there is none, throws an error that says what to do. */
export function askGateway(call: OperatorCall, patienceMs: number): Promise<Response> {
  return callOperatorServer(call, AbortSignal.timeout(patienceMs)).catch((thrown: unknown) => {
    const code = failureCode(thrown);
    const why = code === undefined ? '' : ` (${code})`;
    const hint = 'start a gateway with "tollgate serve", or name its address with --url';
    throw new Error(`Nothing answers at ${call.url}${why}: ${hint}.`);
  });
}
