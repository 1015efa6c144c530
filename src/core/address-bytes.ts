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
export interface AddressRange {
  readonly prefix: Uint8Array;
  readonly prefixBits: number;
}

/** A range, or an address as a range of one; null for anything else. */
export function addressRange(text: string): AddressRange | null {
  const [ip = '', bits, ...rest] = text.split('/');
  const prefix = addressBytes(ip);
  if (prefix === null || rest.length > 0) return null;
  const most = prefix.length * 8;
  if (bits === undefined) return { prefix, prefixBits: most };
  const isLength = /^(0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= most;
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

export function isWithin(bytes: Uint8Array, list: readonly AddressRange[]): boolean {
  return list.some(({ prefix, prefixBits }) => startsWithBits(bytes, prefix, prefixBits));
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
    const whole = groupBytes(headText, true);
    return whole?.length === 16 ? whole : null;
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
