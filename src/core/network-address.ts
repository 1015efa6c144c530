/**
 * Reads an IP address into its bytes. Ranges are compared on bytes only: string prefixes are what
 * let `::ffff:7f00:1` and `0177.0.0.1` through in other gateways (CVE-2023-42282, CVE-2024-29415).
 */

/** Four bytes for IPv4, sixteen for IPv6, null for anything else, zone ids included. */
export function addressBytes(ip: string): Uint8Array | null {
  const bytes = ip.includes(':') ? ipv6Bytes(ip) : ipv4Bytes(ip);
  return bytes === null ? null : Uint8Array.from(bytes);
}

/** All addresses that begin with the same bits: `10.0.0.0/8`. */
interface AddressRange {
  readonly prefix: Uint8Array;
  readonly prefixBits: number;
}

/** A range, or an address as a range of one; null for anything else. */
export function addressRange(text: string): AddressRange | null {
  const [ip = '', bits, ...rest] = text.split('/');
  const prefix = addressBytes(ip);
  if (prefix === null || rest.length > 0) return null;
  const maxBits = prefix.length * 8;
  if (bits === undefined) return { prefix, prefixBits: maxBits };
  const isLength = /^(0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= maxBits;
  return isLength ? { prefix, prefixBits: Number(bits) } : null;
}

/** For the ranges that stand in the code. */
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

/** Whether the first `prefixBits` bits of both addresses agree. */
function startsWithBits(address: Uint8Array, prefix: Uint8Array, prefixBits: number): boolean {
  if (address.length !== prefix.length) return false;
  for (let bit = 0; bit < prefixBits; bit += 8) {
    const mask = prefixBits - bit >= 8 ? 0xff : (0xff << (8 - (prefixBits - bit))) & 0xff;
    const at = bit / 8;
    if (((address[at] ?? 0) & mask) !== ((prefix[at] ?? 0) & mask)) return false;
  }
  return true;
}

/** Only the canonical form: a leading zero is octal to some readers and decimal to others. */
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

/** Bytes of colon-separated groups; only the last group of an address may be a dotted IPv4. */
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
 * The places besides the Internet that an operator can open to the addresses of users. All others
 * stay closed, whatever is written: link-local addresses, where most metadata services answer with
 * the credentials of the machine, 0.0.0.0, multicast, and IPv6 spellings that wrap an IPv4 address.
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

/** Metadata services that answer inside those ranges: of Alibaba, AWS and Google. */
const metadataServices = addressRanges('100.100.100.200', 'fd00:ec2::254', 'fd20:ce::254');

/** Names of metadata services, whatever network they are asked in. */
const metadataName = /^(metadata|instance-data)(\.|$)/;

export function isPrivateAddress(ip: string): boolean {
  const range = addressRange(ip);
  return range !== null && isPrivate(range);
}

/** What one entry of an operator's list opens: a host name, or a range of private addresses. */
type PrivateTarget = { readonly name: string } | { readonly range: AddressRange };

/** Undefined when it can open nothing. */
export function parsePrivateTarget(entry: string): PrivateTarget | undefined {
  const range = addressRange(entry);
  if (range) return isPrivate(range) ? { range } : undefined;
  const name = entry.toLowerCase();
  return isHostName(name) && !metadataName.test(name) ? { name } : undefined;
}

/** As a whole: a range that is wider than a private one is in part the Internet. */
function isPrivate({ prefix, prefixBits }: AddressRange): boolean {
  if (isWithin(prefix, metadataServices)) return false;
  return privateRanges.some((range) => prefixBits >= range.prefixBits && isWithin(prefix, [range]));
}

/** As it stands in a URL that was read; a name that ends in a number would be an address there. */
export function isHostName(name: string): boolean {
  const labels = name.split('.');
  const isWellFormed = labels.every((label) => /^[a-z0-9_-]{1,63}$/.test(label));
  return isWellFormed && name.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '');
}

/** A host as it stands in a URL: IPv6 in brackets, or its colons would be taken for the port's. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** A URL's host as it stands anywhere else, without brackets. */
export function hostIn({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** The port of a URL, also where it is left out. */
export function portIn({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/** Whether a URL leads to this machine itself. */
export function isLoopback(url: string): boolean {
  return /^https?:\/\/(127\.|localhost[:/]|\[::1\])/i.test(url);
}
