import { unlessAborted } from '../../core/deadlines.ts';
import { failureCode, GatewayError } from '../../core/errors.ts';
import { addressBytes, hostInUrl } from '../../core/network-address.ts';
import type { Offer } from '../../route/catalog.ts';
import {
  type AddressPolicy,
  checkUserUrl,
  hostAndPort,
  literalAddress,
  mayDial,
} from './address-policy.ts';
import { NameServerTimeout, type ResolveHost, resolverFor } from './host-names.ts';

/**
 * Turns a user's URL into checked addresses and calls those. The name is resolved only once, so its
 * DNS server can't return one address for the check and another for the connection (rebinding).
 */

export interface GuardedTarget {
  /** The user's URL, for the `Host` header and the certificate check. */
  readonly url: URL;
  /** The same URL with checked addresses in place of the host name, in the order to try. */
  readonly pinnedUrls: readonly URL[];
}

/** The target of an allowed URL, or a sentence that says why the URL is rejected. */
type TargetCheck =
  | { readonly ok: true; readonly target: GuardedTarget }
  | { readonly ok: false; readonly reason: string };

/** All addresses are checked, but at most this many are tried. */
const addressesTriedMax = 4;

/**
 * Used for unknown names and internal names, so that it doesn't reveal which internal names exist.
 */
const unresolvedMessage = "The host name of the URL doesn't resolve to a public address.";

const timeoutMessage = "The name server for the host name of the URL doesn't respond.";

/** Checks a tenant's URL and resolves its host name. Throws 503 if too many names are resolved. */
export async function guardTarget(
  text: string,
  policy: AddressPolicy,
  resolve: ResolveHost,
): Promise<TargetCheck> {
  const checked = checkUserUrl(text, policy);
  if (!checked.ok) return checked;
  const { url } = checked;
  const literal = literalAddress(url);
  if (literal !== null) return { ok: true, target: { url, pinnedUrls: [pinnedUrl(url, literal)] } };
  let addresses: readonly string[];
  try {
    addresses = await resolve(url.hostname);
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    const isTimeout = error instanceof NameServerTimeout;
    return { ok: false, reason: isTimeout ? timeoutMessage : unresolvedMessage };
  }
  const isAllowedHost = policy.allowHosts.includes(hostAndPort(url));
  // One private address rejects the URL, because any of the addresses may be called.
  const areAllowed = addresses.every(
    (ip) => (isAllowedHost && addressBytes(ip) !== null) || mayDial(url, ip, policy),
  );
  if (addresses.length === 0 || !areAllowed) return { ok: false, reason: unresolvedMessage };
  // IPv4 comes first, because IPv6 is often unroutable and only fails after seconds.
  const byFamily = addresses.toSorted((a, b) => Number(a.includes(':')) - Number(b.includes(':')));
  const pinnedUrls = byFamily.slice(0, addressesTriedMax).map((ip) => pinnedUrl(url, ip));
  return { ok: true, target: { url, pinnedUrls } };
}

/**
 * Returns fetch options that pin the call to its address and check the certificate against the host
 * name. All are needed. By default, fetch in Bun 1.4.4 follows redirects, uses proxy variables,
 * decompresses bodies, reuses connections, and obeys NODE_TLS_REJECT_UNAUTHORIZED=0.
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
      // Without a server name, Bun checks the certificate against the address in the URL.
      ...(literalAddress(url) === null ? { serverName: url.hostname } : {}),
      ...(trustedCertificates === undefined ? {} : { ca: trustedCertificates }),
    },
  } satisfies BunFetchRequestInit;
}

/** Built from text, because the `hostname` setter silently keeps the old name on invalid input. */
function pinnedUrl(url: URL, ip: string): URL {
  const port = url.port === '' ? '' : `:${url.port}`;
  return new URL(`${url.protocol}//${hostInUrl(ip)}${port}${url.pathname}${url.search}`);
}

/** Checks a URL that a tenant provided, and resolves its name again at every use. */
export type CheckAddress = (url: string) => Promise<TargetCheck>;

/** Returns the check for calls to this offer, or undefined if the operator chose its address. */
export function checkFor(
  { ownAccount }: Offer,
  context: { readonly checkAddress: CheckAddress },
): CheckAddress | undefined {
  return ownAccount?.isUserUrl ? (url) => context.checkAddress(url) : undefined;
}

/** Returns why a tenant's URL is rejected, or null if it is allowed. */
export type RejectionReason = (url: string, tenantId: string) => Promise<string | null>;

export function rejectionReasonBy(policy: AddressPolicy): RejectionReason {
  return async (url, tenantId) => {
    const checked = await guardTarget(url, policy, resolverFor(tenantId));
    return checked.ok ? null : checked.reason;
  };
}

/** Thrown if a user's URL is rejected when it is about to be called. */
export class RejectedAddress extends Error {
  override readonly name = 'RejectedAddress';
}

/** Returns the target of a URL. Rejects if the URL isn't allowed or the signal aborts first. */
export async function targetOf(
  url: string,
  check: CheckAddress,
  signal: AbortSignal,
): Promise<GuardedTarget> {
  const checked = await unlessAborted(check(url), signal);
  if (checked === undefined) throw signal.reason;
  if (!checked.ok) throw new RejectedAddress(checked.reason);
  return checked.target;
}

/** Failures before any byte was sent. The next address may be tried even for a POST. */
export const connectFailures: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);

/** Tries the addresses of a target in order. Rejects with the last failure. */
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

/** Returns whether a failure code means that the server's certificate isn't trusted. */
export function isUntrusted(code: string): boolean {
  return /CERT|VERIFY|ISSUER/.test(code);
}
