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
 * Decides which addresses that users hand us (image URLs, webhooks, their own base URLs) may be
 * called at all. Pure: resolving names and connecting is the business of guarded-fetch.ts, which
 * asks again at every use, because a URL that was fine when it was saved may not be fine now.
 * The operator's provider URLs do not pass here.
 */

/** Presigned object URLs with session tokens reach about 2.5 kB; nothing honest is longer. */
const userUrlLengthMax = 4096;

/** What may be called besides the public Internet; `publicOnly` holds when nothing is said. */
export interface AddressPolicy {
  readonly isAllowedAddress: (ip: string) => boolean;
  /** Exact `host:port` pairs that the operator vouches for, wherever they resolve to. */
  readonly allowHosts: readonly string[];
  /** Names that may lead to private addresses, too. */
  readonly privateNames: ReadonlySet<string>;
  /** Whether this is where we ourselves are reached; that is never called. */
  readonly isOwnAddress: (address: Uint8Array, port: number) => boolean;
}

export const publicOnly: AddressPolicy = {
  isAllowedAddress: isPublicAddress,
  allowHosts: [],
  privateNames: new Set(),
  isOwnAddress: () => false,
};

/** The Internet, and the private places that the operator lists: names, addresses, ranges. */
export function policyWith(
  privateAddresses: readonly string[],
  ownPort: () => number,
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
    isOwnAddress: ownAddressCheck(ownPort),
  };
}

/** Whether a URL may be called at this address: the one it names, or one its name leads to. */
export function mayDial(url: URL, ip: string, policy: AddressPolicy): boolean {
  const bytes = unwrapIpv4(ip);
  if (bytes === null || policy.isOwnAddress(bytes, portIn(url))) return false;
  if (policy.isAllowedAddress(ip)) return true;
  return policy.privateNames.has(url.hostname) && isPrivateAddress(ip);
}

const notPublicMessage = 'The address is not public.';

/**
 * IPv4 ranges that are not ordinary unicast on the public Internet, from the IANA special-purpose
 * registry (RFC 6890), and one public-looking address that answers inside every Azure network.
 */
const refusedIpv4 = addressRanges(
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

/** The only IPv6 block that IANA hands out as global unicast; all else is refused by default. */
const globalIpv6 = addressRanges('2000::/3');

/** Exceptions inside the global block. */
const refusedIpv6 = addressRanges(
  '2001::/23', // protocol assignments: Teredo, benchmarking, ORCHID and ORCHIDv2
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4: wraps any IPv4 address, and nobody serves from it any more
  '3fff::/20', // documentation
);

/**
 * IPv6 spellings of an IPv4 address, which stands in the last four bytes: mapped and NAT64.
 * The local-use NAT64 block 64:ff9b:1::/48 is not here: where the IPv4 address stands inside it
 * is each network's own choice (RFC 8215), so it stays refused as a whole.
 */
const wrappedIpv4 = addressRanges('::ffff:0:0/96', '64:ff9b::/96');

function unwrapIpv4(ip: string): Uint8Array | null {
  const bytes = addressBytes(ip);
  return bytes && isWithin(bytes, wrappedIpv4) ? bytes.subarray(12) : bytes;
}

/** Whether `ip`, a literal address without brackets, is ordinary unicast on the Internet. */
function isPublicAddress(ip: string): boolean {
  const bytes = unwrapIpv4(ip);
  if (bytes === null) return false;
  if (bytes.length === 4) return !isWithin(bytes, refusedIpv4);
  return isWithin(bytes, globalIpv6) && !isWithin(bytes, refusedIpv6);
}

/**
 * Names that only mean something inside a network. Names that merely resolve to private addresses
 * are caught at resolution; these are refused by sight, whatever a local resolver would say.
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
 * Ports from 1024 up are open, since people serve images and webhooks from 3000, 8080 or 8443.
 * These few are not: they speak protocols that would take a web request for commands, or are
 * control planes and stores that answer without a password. The address check is the wall; this
 * keeps the gateway from being used to knock on other people's databases.
 */
const refusedPorts: ReadonlySet<number> = new Set([
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

/**
 * The URL to call, without its fragment, or one sentence saying why it is refused. Literal
 * addresses are classified here; host names still have to be resolved and checked at use.
 */
export function checkUserUrl(text: string, policy: AddressPolicy = publicOnly): URL | string {
  if (text.length > userUrlLengthMax) {
    return `The URL is longer than ${userUrlLengthMax} characters.`;
  }
  // What URL parsers disagree on is refused before parsing: the text may be handed on to an
  // upstream with another parser (CVE-2026-24779 came from one backslash).
  if (!/^[^\p{Cc}\p{Z}\\]+$/u.test(text)) {
    return 'The URL must not contain spaces, control characters or backslashes.';
  }
  if (!/^https?:\/\//i.test(text)) return 'The URL must start with http:// or https://.';
  const url = URL.parse(text);
  if (url === null) return 'The URL is malformed.';
  if (url.username !== '' || url.password !== '') {
    return 'The URL must not contain a user name or password.';
  }
  url.hash = '';
  if (policy.allowHosts.includes(hostAndPort(url))) return url;
  return portRefusal(portIn(url)) ?? hostRefusal(url, policy) ?? url;
}

/** The address a URL names literally, without brackets, or null when it names a host. */
export function literalAddress(url: URL): string | null {
  const bare = hostIn(url);
  return addressBytes(bare) === null ? null : bare;
}

export function hostAndPort(url: URL): string {
  return `${url.hostname}:${portIn(url)}`;
}

function portRefusal(port: number): string | null {
  const isWebPort = port === 80 || port === 443;
  if (isWebPort || (port >= 1024 && !refusedPorts.has(port))) return null;
  return `The URL must not use port ${port}.`;
}

function hostRefusal(url: URL, policy: AddressPolicy): string | null {
  const address = literalAddress(url);
  if (address !== null) return mayDial(url, address, policy) ? null : notPublicMessage;
  const name = url.hostname;
  // An empty label is a doubled or trailing dot; a trailing dot dodges suffix rules.
  if (!isHostName(name)) return 'The URL has a malformed host name.';
  if (policy.privateNames.has(name)) return null;
  // A single label is completed by the search domains of the machine we run on.
  if (!name.includes('.')) return notPublicMessage;
  const isInternal = internalSuffixes.some(
    (suffix) => name === suffix || name.endsWith(`.${suffix}`),
  );
  return isInternal ? notPublicMessage : null;
}

/**
 * How long this machine's addresses are remembered: reading them takes a tenth of a millisecond,
 * and one request may bring ten thousand addresses to check.
 */
const cacheMs = 10_000;

const loopback = addressRanges('127.0.0.0/8', '::1/128');

/**
 * Recognises the door by which we ourselves are reached: our port, at any address of this machine.
 * No address of a user may lead there, whatever else may be called.
 */
function ownAddressCheck(ownPort: () => number): (address: Uint8Array, port: number) => boolean {
  let ownRanges = loopback;
  let readAt = Number.NEGATIVE_INFINITY;
  return (address, port) => {
    if (port !== ownPort()) return false;
    const now = performance.now();
    if (now - readAt > cacheMs) {
      const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
      ownRanges = [...loopback, ...all.flatMap((one) => addressRange(one.address) ?? [])];
      readAt = now;
    }
    return isWithin(address, ownRanges);
  };
}
