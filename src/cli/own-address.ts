import { hostInUrl } from '../core/host-in-url.ts';

/** A gateway that listens on every address is asked on the one that every machine has. */
export function ownAddress({ host, port }: { readonly host: string; readonly port: number }) {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return `http://${hostInUrl(host)}:${port}`;
}
