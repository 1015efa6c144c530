/**
 * Parses an IP address: 4 bytes for IPv4, 16 for IPv6, null for anything else, including zone IDs.
 * Ranges are compared on bytes only, because string prefixes let `::ffff:7f00:1` and `0177.0.0.1`
 * through in other gateways (CVE-2023-42282, CVE-2024-29415).
 */
export function addressBytes(ip: string): Uint8Array | null {
  const bytes = ip.includes(':') ? ipv6Bytes(ip) : ipv4Bytes(ip);
  return bytes === null ? null : Uint8Array.from(bytes);
}

/** All addresses with the same leading bits, such as `10.0.0.0/8`. */
export interface AddressRange {
  readonly prefix: Uint8Array;
  readonly prefixBits: number;
}

/** Parses a range, or an address as a range of one. Returns null for anything else. */
export function addressRange(text: string): AddressRange | null {
  const [ip = '', bits, ...rest] = text.split('/');
  const prefix = addressBytes(ip);
  if (prefix === null || rest.length > 0) return null;
  const maxBits = prefix.length * 8;
  if (bits === undefined) return { prefix, prefixBits: maxBits };
  const isLength = /^(0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= maxBits;
  return isLength ? { prefix, prefixBits: Number(bits) } : null;
}

/** Parses ranges written in the code. Throws if one is invalid. */
export function addressRanges(...texts: readonly string[]): readonly AddressRange[] {
  return texts.map((text) => {
    const range = addressRange(text);
    if (range === null) throw new Error(`${text} is not an address range`);
    return range;
  });
}

export function isWithin(bytes: Uint8Array, ranges: readonly AddressRange[]): boolean {
  return ranges.some(({ prefix, prefixBits }) => startsWithBits(bytes, prefix, prefixBits));
}

/** Compares the first `prefixBits` bits of two addresses. */
function startsWithBits(address: Uint8Array, prefix: Uint8Array, prefixBits: number): boolean {
  if (address.length !== prefix.length) return false;
  for (let bit = 0; bit < prefixBits; bit += 8) {
    const mask = prefixBits - bit >= 8 ? 0xff : (0xff << (8 - (prefixBits - bit))) & 0xff;
    const at = bit / 8;
    if (((address[at] ?? 0) & mask) !== ((prefix[at] ?? 0) & mask)) return false;
  }
  return true;
}

/** Accepts only the canonical form, because some parsers read a leading zero as octal. */
function ipv4Bytes(text: string): number[] | null {
  const parts = text.split('.');
  const isByte = (part: string) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255;
  return parts.length === 4 && parts.every(isByte) ? parts.map(Number) : null;
}

function ipv6Bytes(text: string): number[] | null {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const [headText = '', tailText] = halves;
  if (tailText === undefined) {
    const bytes = groupBytes(headText, true);
    return bytes?.length === 16 ? bytes : null;
  }
  const head = groupBytes(headText, false);
  const tail = groupBytes(tailText, true);
  if (head === null || tail === null) return null;
  const gap = 16 - head.length - tail.length;
  // RFC 4291 lets `::` stand for at least one group.
  if (gap < 2) return null;
  return [...head, ...new Array<number>(gap).fill(0), ...tail];
}

/**
 * Parses colon-separated groups. Only the last group of an address can be a dotted IPv4 address.
 */
function groupBytes(text: string, atEnd: boolean): number[] | null {
  if (text === '') return [];
  const groups = text.split(':');
  const bytes: number[] = [];
  for (const [index, group] of groups.entries()) {
    if (atEnd && index === groups.length - 1 && group.includes('.')) {
      const embedded = ipv4Bytes(group);
      if (embedded === null) return null;
      bytes.push(...embedded);
    } else {
      if (!/^[0-9a-fA-F]{1,4}$/.test(group)) return null;
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    }
  }
  return bytes;
}

/**
 * The private ranges that an operator can open to URLs from users. All others stay blocked:
 * link-local addresses, where most metadata services return the machine's credentials, 0.0.0.0,
 * multicast, and IPv6 forms that embed an IPv4 address.
 */
const privateRanges = addressRanges(
  '10.0.0.0/8',
  '100.64.0.0/10', // carrier-grade NAT, and overlay networks
  '127.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '::1/128',
  'fc00::/7',
);

/** Metadata services inside those ranges, of Alibaba, AWS, and Google. */
const metadataServices = addressRanges('100.100.100.200', 'fd00:ec2::254', 'fd20:ce::254');

/** Host names of metadata services in any network. */
const metadataName = /^(metadata|instance-data)(\.|$)/;

export function isPrivateAddress(ip: string): boolean {
  const range = addressRange(ip);
  return range !== null && isPrivate(range);
}

/** One entry of the operator's allow-list: a host name or a range of private addresses. */
type PrivateTarget = { readonly name: string } | { readonly range: AddressRange };

/** Parses an allow-list entry. Returns undefined if it can't be allowed. */
export function parsePrivateTarget(entry: string): PrivateTarget | undefined {
  const range = addressRange(entry);
  if (range) return isPrivate(range) ? { range } : undefined;
  const name = entry.toLowerCase();
  return isHostName(name) && !metadataName.test(name) ? { name } : undefined;
}

/** Returns whether the entire range is private. A wider range would include public addresses. */
function isPrivate({ prefix, prefixBits }: AddressRange): boolean {
  if (isWithin(prefix, metadataServices)) return false;
  return privateRanges.some((range) => prefixBits >= range.prefixBits && isWithin(prefix, [range]));
}

/** Matches a host name as in a parsed URL. A name that ends in a number would be an address. */
export function isHostName(name: string): boolean {
  const labels = name.split('.');
  const isWellFormed = labels.every((label) => /^[a-z0-9_-]{1,63}$/.test(label));
  return isWellFormed && name.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '');
}

/** Formats a host for a URL. IPv6 needs brackets because of its colons. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Returns a URL's host without IPv6 brackets. */
export function hostIn({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** Returns a URL's port, or the default of its protocol. */
export function portIn({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** Returns whether a URL points to this machine. */
export function isLoopback(url: string): boolean {
  return /^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url);
}
