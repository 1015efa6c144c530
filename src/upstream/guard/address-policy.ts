import { networkInterfaces } from 'node:os';
import {
  addressBytes,
  addressRange,
  addressRanges,
  hostIn,
  isHostName,
  isPrivateAddress,
  isWithin,
  parsePrivateTarget,
  portIn,
} from '../../core/network-address.ts';

/**
 * Decides which user-provided addresses (image URLs, webhooks, base URLs) may be called. It does no
 * I/O: guarded-fetch.ts resolves names and connects, and checks again at every use, because a name
 * may resolve differently by then. The operator's provider URLs aren't checked.
 */

/** Presigned object URLs with session tokens reach about 2.5 kB. */
const userUrlLengthMax = 4096;

/** The addresses that may be called. The default is `publicOnly`. */
export interface AddressPolicy {
  readonly isAllowedAddress: (ip: string) => boolean;
  /** Exact `host:port` pairs that are allowed, regardless of the address they resolve to. */
  readonly allowHosts: readonly string[];
  /** Host names that may resolve to private addresses. */
  readonly privateNames: ReadonlySet<string>;
  /** Returns whether this gateway listens at the address. Such addresses are never called. */
  readonly isOwnAddress: (address: Uint8Array, port: number) => boolean;
}

export const publicOnly: AddressPolicy = {
  isAllowedAddress: isPublicAddress,
  allowHosts: [],
  privateNames: new Set(),
  isOwnAddress: () => false,
};

/** Allows the public Internet and the private names, addresses, and ranges of the config. */
export function policyWith(
  privateAddresses: readonly string[],
  ownPorts: () => readonly number[],
): AddressPolicy {
  const entries = privateAddresses.map(parsePrivateTarget);
  const ranges = entries.flatMap((entry) => (entry && 'range' in entry ? [entry.range] : []));
  const names = entries.flatMap((entry) => (entry && 'name' in entry ? [entry.name] : []));
  const isListed = (ip: string) => {
    const bytes = addressBytes(ip);
    return bytes !== null && isWithin(bytes, ranges) && isPrivateAddress(ip);
  };
  return {
    ...publicOnly,
    isAllowedAddress: (ip) => isPublicAddress(ip) || isListed(ip),
    privateNames: new Set(names),
    isOwnAddress: ownAddressCheck(ownPorts),
  };
}

/** Returns whether a URL may be called at this address, which it contains or resolves to. */
export function mayDial(url: URL, ip: string, policy: AddressPolicy): boolean {
  const bytes = unwrapIpv4(ip);
  if (bytes === null || policy.isOwnAddress(bytes, portIn(url))) return false;
  if (policy.isAllowedAddress(ip)) return true;
  return policy.privateNames.has(url.hostname) && isPrivateAddress(ip);
}

const notPublicMessage = 'The address is not public.';

/**
 * IPv4 ranges that aren't ordinary unicast on the public Internet, from the IANA special-purpose
 * registry (RFC 6890), and one public-looking address that is internal to every Azure network.
 */
const rejectedIpv4 = addressRanges(
  '0.0.0.0/8', // this network; Linux connects 0.0.0.0 to loopback (GHSA-v5c3-6wvc-pc2q)
  '10.0.0.0/8',
  '100.64.0.0/10', // carrier-grade NAT, and Alibaba's metadata service
  '127.0.0.0/8',
  '168.63.129.16/32', // Azure's host agent
  '169.254.0.0/16', // link-local, and most metadata services
  '172.16.0.0/12',
  '192.0.0.0/24', // IETF protocol assignments, and Oracle's metadata service
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relay
  '192.168.0.0/16',
  '198.18.0.0/15', // benchmarking
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
);

/** The only IPv6 block that IANA assigns as global unicast. All others are rejected. */
const globalIpv6 = addressRanges('2000::/3');

/** Blocks inside the global one that are rejected. */
const rejectedIpv6 = addressRanges(
  '2001::/23', // protocol assignments: Teredo, benchmarking, ORCHID and ORCHIDv2
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4: wraps any IPv4 address, and is deprecated
  '3fff::/20', // documentation
);

/**
 * IPv6 notations with an IPv4 address in the last 4 bytes: mapped and NAT64. The local-use NAT64
 * block 64:ff9b:1::/48 is rejected instead, because each network chooses where it puts the IPv4
 * address (RFC 8215).
 */
const wrappedIpv4 = addressRanges('::ffff:0:0/96', '64:ff9b::/96');

function unwrapIpv4(ip: string): Uint8Array | null {
  const bytes = addressBytes(ip);
  return bytes && isWithin(bytes, wrappedIpv4) ? bytes.subarray(12) : bytes;
}

/** Returns whether `ip`, a literal address without brackets, is public unicast. */
function isPublicAddress(ip: string): boolean {
  const bytes = unwrapIpv4(ip);
  if (bytes === null) return false;
  if (bytes.length === 4) return !isWithin(bytes, rejectedIpv4);
  return isWithin(bytes, globalIpv6) && !isWithin(bytes, rejectedIpv6);
}

/**
 * Suffixes of names that exist only inside a network. They are rejected without being resolved.
 * Other names are rejected if they resolve to a private address.
 */
const internalSuffixes = [
  'localhost',
  'local',
  'localdomain',
  'internal', // also metadata.google.internal and *.ec2.internal
  'intranet',
  'private',
  'corp',
  'home',
  'lan',
  'svc', // Kubernetes services
  'home.arpa',
  'metadata.tencentyun.com',
];

/**
 * Ports from 1024 up are allowed, because images and webhooks are served from 3000, 8080, or 8443.
 * The exceptions are control planes and databases that need no password, and protocols that may
 * read an HTTP request as commands. Rejecting these ports keeps the gateway from being used to
 * attack third parties.
 */
const rejectedPorts: ReadonlySet<number> = new Set([
  2049, // NFS
  2181, // ZooKeeper
  2375, // Docker
  2376,
  2379, // etcd
  2380,
  2525, // SMTP
  3306, // MySQL
  3389, // remote desktop
  5060, // SIP
  5061,
  5432, // Postgres
  5672, // AMQP
  5900, // VNC
  5984, // CouchDB
  6379, // Redis
  26379, // Redis sentinel
  6443, // Kubernetes
  6667, // IRC
  6697,
  8500, // Consul
  9042, // Cassandra
  9092, // Kafka
  9200, // Elasticsearch
  9300,
  10250, // kubelet
  10255,
  11211, // memcached
  27017, // MongoDB
  27018,
  27019,
]);

/** The URL to call, without its fragment, or a sentence that says why it is rejected. */
type UrlCheck =
  | { readonly ok: true; readonly url: URL }
  | { readonly ok: false; readonly reason: string };

/**
 * Checks a URL from a user. Literal addresses are accepted or rejected here. Host names must still
 * be resolved and checked at every use.
 */
export function checkUserUrl(text: string, policy: AddressPolicy = publicOnly): UrlCheck {
  const url = parseUserUrl(text);
  if (typeof url === 'string') return { ok: false, reason: url };
  if (policy.allowHosts.includes(hostAndPort(url))) return { ok: true, url };
  const reason = portRejection(portIn(url)) ?? hostRejection(url, policy);
  return reason === null ? { ok: true, url } : { ok: false, reason };
}

/** Returns the URL without its fragment, or a sentence that says what is wrong with it. */
function parseUserUrl(text: string): URL | string {
  if (text.length > userUrlLengthMax) {
    return `The URL is longer than ${userUrlLengthMax} characters.`;
  }
  // URL parsers treat these characters differently, and an upstream may parse the text again
  // (CVE-2026-24779 was caused by one backslash).
  if (!/^[^\p{Cc}\p{Z}\\]+$/u.test(text)) {
    return 'The URL must not contain spaces, control characters, or backslashes.';
  }
  if (!/^https?:\/\//i.test(text)) return 'The URL must start with http:// or https://.';
  const url = URL.parse(text);
  if (url === null) return 'The URL is malformed.';
  if (url.username !== '' || url.password !== '') {
    return 'The URL must not contain a user name or password.';
  }
  url.hash = '';
  return url;
}

/** Returns the literal address in a URL, without brackets, or null if it names a host. */
export function literalAddress(url: URL): string | null {
  const bare = hostIn(url);
  return addressBytes(bare) === null ? null : bare;
}

export function hostAndPort(url: URL): string {
  return `${url.hostname}:${portIn(url)}`;
}

function portRejection(port: number): string | null {
  const isWebPort = port === 80 || port === 443;
  if (isWebPort || (port >= 1024 && !rejectedPorts.has(port))) return null;
  return `The URL must not use port ${port}.`;
}

function hostRejection(url: URL, policy: AddressPolicy): string | null {
  const address = literalAddress(url);
  if (address !== null) return mayDial(url, address, policy) ? null : notPublicMessage;
  const name = url.hostname;
  // Rejects double and trailing dots. A trailing dot would evade the suffix rules below.
  if (!isHostName(name)) return 'The URL has a malformed host name.';
  if (policy.privateNames.has(name)) return null;
  // The system's resolver would append a search domain to a single label.
  if (!name.includes('.')) return notPublicMessage;
  const isInternal = internalSuffixes.some(
    (suffix) => name === suffix || name.endsWith(`.${suffix}`),
  );
  return isInternal ? notPublicMessage : null;
}

/**
 * How long this machine's addresses are cached. Reading them takes 0.1 ms, and one request may
 * contain 10,000 URLs to check.
 */
const cacheMs = 10_000;

const loopback = addressRanges('127.0.0.0/8', '::1/128');

/**
 * Returns a check for this gateway's own ports at any address of this machine. User-provided URLs
 * may never lead there.
 */
function ownAddressCheck(
  ownPorts: () => readonly number[],
): (address: Uint8Array, port: number) => boolean {
  let ownRanges = loopback;
  let readAt = Number.NEGATIVE_INFINITY;
  return (address, port) => {
    if (!ownPorts().includes(port)) return false;
    const now = performance.now();
    if (now - readAt > cacheMs) {
      const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
      ownRanges = [...loopback, ...all.flatMap(({ address: own }) => addressRange(own) ?? [])];
      readAt = now;
    }
    return isWithin(address, ownRanges);
  };
}
