import { lookup } from 'node:dns/promises';
import { unlessAborted } from '../../core/deadlines.ts';
import { failureCode } from '../../core/errors.ts';
import { addressBytes, hostInUrl } from '../../core/network-address.ts';
import type { Offer } from '../../route/catalog.ts';
import {
  type AddressPolicy,
  checkUserUrl,
  hostAndPort,
  literalAddress,
  mayDial,
} from './address-policy.ts';

/**
 * Turns a user's URL into addresses that have been checked and can be dialled as they are. The name
 * is resolved once and never again: whoever answers DNS for it cannot give the check one address
 * and the connection another (rebinding).
 */

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
const unresolvedMessage = 'The host name of the URL does not lead to a public address.';

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
    return unresolvedMessage;
  }
  const isVouchedFor = policy.allowHosts.includes(hostAndPort(url));
  // One private address among public ones refuses them all: which one is dialled must not be luck.
  const areAllowed = addresses.every(
    (ip) => (isVouchedFor && addressBytes(ip) !== null) || mayDial(url, ip, policy),
  );
  if (addresses.length === 0 || !areAllowed) return unresolvedMessage;
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
function pinnedOptions(url: URL, trustedCertificates: string | undefined) {
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

/** Checks an address that a user gave: where it may be dialled, or a sentence why nowhere. */
export type CheckAddress = (url: string) => Promise<GuardedTarget | string>;

/** The check for a call to this offer: none where the operator chose the address. */
export function checkFor({ own }: Offer, checkAddress: CheckAddress): CheckAddress | undefined {
  return own?.isUserAddress ? checkAddress : undefined;
}

/** Every address of a name, as the machine we run on resolves it. */
export const resolveBySystem: ResolveHost = async (host) => {
  const answers = await lookup(host, { all: true });
  return answers.map((answer) => answer.address);
};

/** Checks by this policy at every use, since a name may lead elsewhere by then. */
export function checkBy(policy: AddressPolicy): CheckAddress {
  return (url) => guardTarget(url, policy, resolveBySystem);
}

/** Why a user's address is refused; null when it is not. */
export function refusalBy(policy: AddressPolicy): (url: string) => Promise<string | null> {
  const check = checkBy(policy);
  return async (url) => {
    const found = await check(url);
    return typeof found === 'string' ? found : null;
  };
}

/** A user's address that may not be dialled, or not any more. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress';
}

/** The target; rejects with a sentence when it is refused, and when the signal fires first. */
export async function targetOf(
  url: string,
  check: CheckAddress,
  signal: AbortSignal,
): Promise<GuardedTarget> {
  const found = await unlessAborted(check(url), signal);
  if (found === undefined) throw signal.reason;
  if (typeof found === 'string') throw new RefusedAddress(found);
  return found;
}

/** Failures before a byte was sent, so that the next address may be tried even with a body. */
export const connectFailures: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);

/** Tries the checked addresses of a target in turn; rejects as the last one of them did. */
export async function callPinned(
  target: GuardedTarget,
  init: BunFetchRequestInit & { readonly headers: Headers },
  trustedCertificates?: string,
): Promise<Response> {
  init.headers.set('host', target.url.host);
  let failure: unknown;
  for (const pinnedUrl of target.pinnedUrls) {
    try {
      return await fetch(pinnedUrl, {
        ...init,
        ...pinnedOptions(target.url, trustedCertificates),
      });
    } catch (error) {
      failure = error;
      if (!connectFailures.has(failureCode(error) ?? '')) break;
    }
  }
  throw failure;
}

/** The other side has shown a certificate that is expired, for another name or signed by nobody. */
export function isUntrusted(code: string): boolean {
  return /CERT|VERIFY|ISSUER/.test(code);
}
