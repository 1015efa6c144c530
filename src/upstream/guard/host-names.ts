import { putBounded } from '../../core/bounded-map.ts';
import { withTimeout } from '../../core/deadlines.ts';
import { FairShareBudget } from '../../limits/memory-budget.ts';

/** Resolves a host name to all its addresses, as text. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

/** A name server that doesn't respond to a retransmission, either, won't respond soon. */
const lookupMsMax = 5_000;

/** Docker's and dnsmasq's name servers drop queries above about this many at the same time. */
const lookupsMax = 128;

/** How long a failure is repeated without a new lookup. Short, for names that were just created. */
const failureMs = 5_000;
const failuresMax = 1_000;

/** Thrown if the name server doesn't respond. */
export class NameServerTimeout extends Error {
  override readonly name = 'NameServerTimeout';
}

interface Lookup {
  readonly addresses: Promise<readonly string[]>;
  /** When a failure is forgotten. Infinite while the lookup is running. */
  expiresAt: number;
}

/**
 * Resolves the host names of URLs that users provide, with c-ares. Like the system's resolver, it
 * reads the hosts file and search domains. The system's resolver would block one of the runtime's
 * few threads per name, and file writes would wait for a name server that doesn't respond.
 */
export class HostNames {
  readonly #timeoutMs: number;
  /** Running and failed lookups by name. c-ares caches successful lookups itself. */
  readonly #lookups = new Map<string, Lookup>();
  readonly #budget = new FairShareBudget(
    lookupsMax,
    'The gateway is resolving too many host names. Try again shortly.',
  );

  constructor(timeoutMs = lookupMsMax) {
    this.#timeoutMs = timeoutMs;
  }

  /** Returns all addresses as text. Throws 503 if the tenant has too many lookups running. */
  resolve(host: string, tenantId: string): Promise<readonly string[]> {
    const known = this.#lookups.get(host);
    if (known && performance.now() < known.expiresAt) return known.addresses;
    // Deleted first, so that the new lookup is the youngest entry.
    this.#lookups.delete(host);
    this.#budget.reserve(tenantId, 1);
    const lookup = { addresses: this.#query(host, tenantId), expiresAt: Number.POSITIVE_INFINITY };
    putBounded(this.#lookups, host, lookup, failuresMax);
    lookup.addresses.then(
      () => this.#lookups.delete(host),
      () => {
        lookup.expiresAt = performance.now() + failureMs;
      },
    );
    return lookup.addresses;
  }

  async #query(host: string, tenantId: string): Promise<readonly string[]> {
    const query = Bun.dns.lookup(host, { backend: 'c-ares' });
    // After the timeout, c-ares keeps sending queries for a while, so the lookup still counts.
    const release = () => this.#budget.release(tenantId, 1);
    query.then(release, release);
    const found = await withTimeout(query, this.#timeoutMs);
    if (!found) throw new NameServerTimeout();
    return found.map(({ address }) => address);
  }
}

/** Shared by all tenants and reloads of this process. */
const hostNames = new HostNames();

/** Returns a resolver whose lookups count against this tenant. */
export function resolverFor(tenantId: string): ResolveHost {
  return (host) => hostNames.resolve(host, tenantId);
}
