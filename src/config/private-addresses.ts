import type { Problem } from '../core/explain.ts';
import { privatePlace } from '../core/private-addresses.ts';
import type { ConfigFile } from './schema.ts';

const wanted =
  'must be a whole host name without * or a port, or an address or a range inside 10.0.0.0/8, ' +
  '172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, 127.0.0.0/8, fc00::/7 or ::1, and no metadata ' +
  'service';

/**
 * `private_addresses` of the file; an entry that is no private name, address or range is a problem.
 */
export function readPrivateAddresses(file: ConfigFile, problems: Problem[]): readonly string[] {
  const entries = file.private_addresses ?? [];
  return entries.filter((entry, at) => {
    if (privatePlace(entry)) return true;
    problems.push({ path: `private_addresses[${at}]`, message: `${wanted}, not "${entry}"` });
    return false;
  });
}
