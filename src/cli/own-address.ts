import { invalidRequest } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import { hostInUrl } from '../core/host-in-url.ts';
import { callOperatorServer, type OperatorCall } from '../upstream/operator-call.ts';
import type { Args } from './command.ts';

/** A gateway that listens on every address is asked on the one that every machine has. */
export function ownAddress({ host, port }: { readonly host: string; readonly port: number }) {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return `http://${hostInUrl(host)}:${port}`;
}

/**
 * What `--url` says. People paste what they have: with a slash at its end, or with the `/v1` of
 * another client.
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

/** What a gateway answers; or throws what to do where none does. */
export function askGateway(call: OperatorCall, patienceMs: number): Promise<Response> {
  return callOperatorServer(call, AbortSignal.timeout(patienceMs)).catch((thrown: unknown) => {
    const code = failureCode(thrown);
    const why = code === undefined ? '' : ` (${code})`;
    const hint = 'start a gateway with "tollgate serve", or name its address with --url';
    throw new Error(`Nothing answers at ${call.url}${why}: ${hint}.`);
  });
}
