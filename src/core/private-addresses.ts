import { type AddressRange, addressRange, addressRanges, isWithin } from './address-bytes.ts';

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
type PrivatePlace = { readonly name: string } | { readonly range: AddressRange };

/** Undefined when it can open nothing. */
export function privatePlace(entry: string): PrivatePlace | undefined {
  const range = addressRange(entry);
  if (range) return isPrivate(range) ? { range } : undefined;
  const name = entry.toLowerCase();
  return isHostName(name) && !metadataName.test(name) ? { name } : undefined;
}

/** As a whole: a range that is wider than a private one is in part the Internet. */
function isPrivate({ prefix, prefixBits }: AddressRange): boolean {
  if (isWithin(prefix, metadataServices)) return false;
  return privateRanges.some((home) => prefixBits >= home.prefixBits && isWithin(prefix, [home]));
}

/** As it stands in a URL that was read; a name that ends in a number would be an address there. */
export function isHostName(name: string): boolean {
  const labels = name.split('.');
  const isWellFormed = labels.every((label) => /^[a-z0-9_-]{1,63}$/.test(label));
  return isWellFormed && name.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '');
}
