/**
 * Turns a user's URL into addresses that have been checked and can be dialled as they are. The name
 * is resolved once and never again: whoever answers DNS for it cannot give the check one address
 * and the connection another (rebinding).
 */

import { addressBytes } from '../../core/address-bytes.ts';
import { hostInUrl } from '../../core/host-in-url.ts';
import {
  type AddressPolicy,
  checkUserUrl,
  hostAndPort,
  literalAddress,
  mayDial,
} from './address-guard.ts';

/** All addresses of a host name, as text. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

export interface GuardedTarget {
  /** The URL that the user gave: for the Host header, and to check the certificate against. */
  readonly url: URL;
  /** The same URL with a checked address in place of the name, best first. */
  readonly pinnedUrls: readonly URL[];
}

/** More addresses than this are all checked, but not all tried. */
const addressesTriedMax = 4;

/**
 * One sentence for «no such name» and «a name of ours»: two would tell a stranger which internal
 * names exist.
 */
const unresolvedSentence = 'The host name of the URL does not lead to a public address.';

/** The target, or one sentence saying why it is refused. */
export async function guardTarget(
  text: string,
  policy: AddressPolicy,
  resolve: ResolveHost,
): Promise<GuardedTarget | string> {
  const url = checkUserUrl(text, policy);
  if (typeof url === 'string') return url;
  const literal = literalAddress(url);
  if (literal !== null) return { url, pinnedUrls: [pinnedUrl(url, literal)] };
  let addresses: readonly string[];
  try {
    addresses = await resolve(url.hostname);
  } catch {
    return unresolvedSentence;
  }
  const isVouchedFor = policy.allowHosts.includes(hostAndPort(url));
  // One private address among public ones refuses them all: which one is dialled must not be luck.
  const areAllowed = addresses.every(
    (ip) => (isVouchedFor && addressBytes(ip) !== null) || mayDial(url, ip, policy),
  );
  if (addresses.length === 0 || !areAllowed) return unresolvedSentence;
  // IPv4 first: gateways often run where IPv6 goes nowhere, and finding that out costs seconds.
  const byFamily = addresses.toSorted((a, b) => Number(a.includes(':')) - Number(b.includes(':')));
  return {
    url,
    pinnedUrls: byFamily.slice(0, addressesTriedMax).map((ip) => pinnedUrl(url, ip)),
  };
}

/**
 * The fetch options that keep a call on its pinned address and check the certificate against the
 * name (each measured on Bun 1.4.4; a bare fetch follows redirects, obeys proxy variables, inflates
 * bodies, pools connections, and skips certificates under NODE_TLS_REJECT_UNAUTHORIZED=0).
 */
export function pinnedOptions(url: URL, trustedCertificates: string | undefined) {
  return {
    redirect: 'manual',
    proxy: false,
    decompress: false,
    keepalive: false,
    protocol: 'http1.1',
    tls: {
      rejectUnauthorized: true,
      // Without a server name Bun checks the certificate against the address in the URL.
      ...(literalAddress(url) === null ? { serverName: url.hostname } : {}),
      ...(trustedCertificates === undefined ? {} : { ca: trustedCertificates }),
    },
  } satisfies BunFetchRequestInit;
}

/** Built from text, not by the `hostname` setter: that one silently keeps the name on a mistake. */
function pinnedUrl(url: URL, ip: string): URL {
  const port = url.port === '' ? '' : `:${url.port}`;
  return new URL(`${url.protocol}//${hostInUrl(ip)}${port}${url.pathname}${url.search}`);
}
