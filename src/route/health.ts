import { putBounded } from '../core/bounded-map.ts';

/**
 * Tracks the health of offers: circuit breakers, and speeds for `provider.sort`. Tracked per
 * provider, credential, and upstream model, so that a broken model doesn't affect the vendor's
 * other models, and one tenant's bad key doesn't affect other tenants.
 */

/** Consecutive failures that open a circuit. A few failures are normal. */
const failuresToOpen = 5;
/**
 * Interrupted answers that one complete answer offsets. If every second answer is interrupted, the
 * circuit opens.
 */
const offsetPerCompleteAnswer = 0.5;
const openMsFirst = 5_000;
const openMsMax = 60_000;
/** How long other requests avoid an offer while one request probes it. */
const probeMs = 5_000;
/**
 * Maximum number of tracked offers, because tenants' keys can create many. The least recently used
 * offer is dropped first.
 */
const entriesMax = 10_000;
/** Weight of the newest value in a moving average. */
const newestWeight = 0.2;

interface OfferHealth {
  failures: number;
  /** Interrupted answers minus the complete ones that offset them. Also counted in `failures`. */
  interruptions: number;
  /** When an open circuit admits the next probe. */
  openUntil: number;
  /** When the open circuit first admits a probe. Earlier failures belong to older requests. */
  probedFrom: number;
  openMs: number;
  firstByteMs: number | null;
  tokensPerSecond: number | null;
}

interface OfferIdentity {
  readonly provider: { readonly name: string };
  readonly upstreamModel: string;
  readonly ownAccount?: { readonly credentialVersion: string } | null;
}

export type CircuitState = 'closed' | 'open' | 'half_open';

export class Health {
  readonly #entries = new Map<string, OfferHealth>();
  /** The name of the last entry in the map. It doesn't need to be moved when it is used again. */
  #lastUsed = '';
  readonly #now: () => number;

  /** Uses a monotonic clock, because setting back the system clock would prolong waits. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Returns whether an offer can be used now. A recovering offer admits a single request as its
   * probe, so call this only for a request that would use the offer.
   */
  admit(offer: OfferIdentity): boolean {
    const entry = this.#entries.get(nameOf(offer));
    if (!entry || entry.failures < failuresToOpen) return true;
    const now = this.#now();
    if (entry.openUntil > now) return false;
    entry.openUntil = now + probeMs;
    return true;
  }

  state(offer: OfferIdentity): CircuitState {
    const entry = this.#entries.get(nameOf(offer));
    if (!entry || entry.failures < failuresToOpen) return 'closed';
    return entry.openUntil > this.#now() ? 'open' : 'half_open';
  }

  /**
   * Records the start of an answer. Resets the count of attempts that failed before their first
   * output, but not of interrupted answers, which can take minutes to fail. If interrupted answers
   * opened the circuit, other requests avoid the offer until the probe's answer has ended, but for
   * at most a minute.
   */
  succeeded(offer: OfferIdentity, firstByteMs: number): void {
    const entry = this.#entryOf(offer);
    entry.firstByteMs = average(entry.firstByteMs, firstByteMs);
    entry.failures = entry.interruptions;
    closeIfHealthy(entry);
    if (entry.failures < failuresToOpen) return;
    const now = this.#now();
    if (now >= entry.probedFrom) entry.openUntil = now + openMsMax;
  }

  /**
   * Records the end of an answer that had started. An interrupted answer counts as a failure. A
   * complete answer offsets earlier interruptions, which may close the circuit. It is ignored
   * before an open circuit admits its first probe.
   */
  ended(offer: OfferIdentity, isComplete: boolean): void {
    const entry = this.#entryOf(offer);
    const { interruptions } = entry;
    if (!isComplete) {
      entry.interruptions++;
      this.failed(offer);
    } else if (interruptions > 0 && this.#now() >= entry.probedFrom) {
      entry.interruptions = Math.max(
        0,
        Math.min(interruptions - offsetPerCompleteAnswer, failuresToOpen - 1),
      );
      entry.failures -= interruptions - entry.interruptions;
      closeIfHealthy(entry);
    }
  }

  failed(offer: OfferIdentity): void {
    const entry = this.#entryOf(offer);
    entry.failures++;
    const now = this.#now();
    // Ignore failures of requests sent before the circuit opened, or sent although it is open.
    if (entry.failures < failuresToOpen || now < entry.probedFrom) return;
    entry.probedFrom = now + entry.openMs;
    entry.openUntil = entry.probedFrom;
    entry.openMs = Math.min(entry.openMs * 2, openMsMax);
  }

  /**
   * Records that the offer rejected an invalid request, which says nothing about its health. If it
   * was the probe, the next request becomes the probe, so that a series of bad requests doesn't
   * block the offer.
   */
  rejected(offer: OfferIdentity): void {
    const entry = this.#entryOf(offer);
    const now = this.#now();
    const isProbed = now >= entry.probedFrom && entry.openUntil <= now + probeMs;
    if (isProbed) entry.openUntil = now;
  }

  observeSpeed(offer: OfferIdentity, tokensPerSecond: number): void {
    const entry = this.#entryOf(offer);
    entry.tokensPerSecond = average(entry.tokensPerSecond, tokensPerSecond);
  }

  /**
   * Returns the average time to the first byte. Unknown offers count as fast, so that they get
   * tried.
   */
  firstByteMs(offer: OfferIdentity): number {
    return this.#entries.get(nameOf(offer))?.firstByteMs ?? 0;
  }

  tokensPerSecond(offer: OfferIdentity): number {
    return this.#entries.get(nameOf(offer))?.tokensPerSecond ?? Number.POSITIVE_INFINITY;
  }

  /** Returns the measured values for display, or null if there are none. */
  observed(
    offer: OfferIdentity,
  ): Pick<OfferHealth, 'firstByteMs' | 'tokensPerSecond' | 'failures'> {
    const entry = this.#entries.get(nameOf(offer));
    return {
      firstByteMs: rounded(entry?.firstByteMs),
      tokensPerSecond: rounded(entry?.tokensPerSecond),
      failures: Math.ceil(entry?.failures ?? 0),
    };
  }

  #entryOf(offer: OfferIdentity): OfferHealth {
    const name = nameOf(offer);
    const known = this.#entries.get(name);
    if (known && name === this.#lastUsed) return known;
    const entry = known ?? {
      failures: 0,
      interruptions: 0,
      openUntil: 0,
      probedFrom: 0,
      openMs: openMsFirst,
      firstByteMs: null,
      tokensPerSecond: null,
    };
    // Reinsert it, so that the first entry of the map is the least recently used.
    this.#entries.delete(name);
    putBounded(this.#entries, name, entry, entriesMax);
    this.#lastUsed = name;
    return entry;
  }
}

const sharedNames = new WeakMap<OfferIdentity, string>();

/**
 * Returns the key of an offer. Cached for shared offers, because offers with a tenant's provider
 * key are created per request.
 */
function nameOf(offer: OfferIdentity): string {
  if (offer.ownAccount) return nameIn(offer.ownAccount.credentialVersion, offer);
  const known = sharedNames.get(offer);
  if (known !== undefined) return known;
  const name = nameIn('', offer);
  sharedNames.set(offer, name);
  return name;
}

function nameIn(credentialVersion: string, { provider, upstreamModel }: OfferIdentity): string {
  return `${provider.name}\n${upstreamModel}\n${credentialVersion}`;
}

function closeIfHealthy(entry: OfferHealth): void {
  if (entry.failures >= failuresToOpen) return;
  entry.probedFrom = 0;
  if (entry.interruptions === 0) entry.openMs = openMsFirst;
}

/** Rounds to 2 decimals, because an average has more decimals than its values. */
function rounded(value: number | null = null): number | null {
  return value === null ? null : Math.round(value * 100) / 100;
}

function average(before: number | null, now: number): number {
  return before === null ? now : before + newestWeight * (now - before);
}
