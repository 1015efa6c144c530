import { failureCode } from '../core/failure-code.ts';
import { hostInUrl } from '../core/host-in-url.ts';

/** A gateway that listens on every address is asked on the one that every machine has. */
export function ownAddress({ host, port }: { readonly host: string; readonly port: number }) {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return `http://${hostInUrl(host)}:${port}`;
}

/** What to tell where a gateway was asked at `url`, and the call broke. */
export function nothingAnswers(url: string, thrown: unknown): Error {
  const code = failureCode(thrown);
  const why = code === undefined ? '' : ` (${code})`;
  const hint = 'start a gateway with "tollgate serve", or name its address with --url';
  return new Error(`Nothing answers at ${url}${why}: ${hint}.`);
}
