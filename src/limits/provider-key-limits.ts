import type { SharedLimits } from './admission.ts';

/** One of a provider's keys, with the operator's limits for it. */
interface LimitedKey {
  readonly name: string;
  readonly provider: { readonly name: string };
  /** Null: no limit. */
  readonly requestsPerMinute: number | null;
  readonly concurrentRequests: number | null;
}

/** Whether a request may use a key, and what to call when it has ended. */
type Entered =
  | { readonly isAllowed: true; leave(): void }
  | { readonly isAllowed: false; readonly waitMs: number };

const minuteMs = 60_000;
/** How soon to try again if a key has as many requests as it may have at the same time. */
const busyMs = 1_000;
/** If Redis has lost its counts, a minute starts anew. */
const unknown = { window: -1, requests: 0, tokens: 0, tenantRequests: 0 };

/** Counts the requests of providers' keys in all processes, in the same way as those of tenants. */
export class ProviderKeyLimits {
  readonly #shared: SharedLimits | undefined;

  /** Without shared counts, each process counts for itself. */
  constructor(shared: SharedLimits | undefined) {
    this.#shared = shared;
  }

  /** Counts a request. Returns undefined if each process has to count for itself. */
  enter(key: LimitedKey): Promise<Entered> | undefined {
    const isLimited = key.requestsPerMinute !== null || key.concurrentRequests !== null;
    const shared = this.#shared;
    return isLimited && shared?.counts.isUp ? enterShared(key, shared) : undefined;
  }
}

async function enterShared(
  { provider, name, ...limits }: LimitedKey,
  { counts, slots }: SharedLimits,
): Promise<Entered> {
  const { requestsPerMinute: requests, concurrentRequests } = limits;
  // IDs of tenants have no spaces.
  const owner = `provider key ${provider.name} ${name}`;
  let slot: string | undefined;
  if (concurrentRequests !== null) {
    slot = await slots.enter(owner, concurrentRequests);
    if (slot === undefined) return { isAllowed: false, waitMs: busyMs };
  }
  const leave = () => {
    if (slot !== undefined) slots.leave(owner, slot);
  };
  if (requests === null) return { isAllowed: true, leave };
  const rate = { requests, tokens: null, tenantRequests: null };
  const counted = await counts.take({ tenantId: owner, keyId: 'all' }, rate, unknown);
  if (!counted || counted.allowed) return { isAllowed: true, leave };
  leave();
  return { isAllowed: false, waitMs: minuteMs - (counted.now % minuteMs) };
}
