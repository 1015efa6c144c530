import { putBounded } from '../core/bounded-map.ts';

/**
 * How each offer has been doing: a circuit breaker, and the speeds that `provider.sort` asks for.
 * Kept per provider, credential and upstream model: one broken model does not condemn its vendor,
 * nor one tenant's bad key the others.
 */

/** Failures in a row that open a circuit: one bad minute, not one bad answer. */
const failuresToOpen = 5;
/** Broken answers that one whole answer makes up for: if every second breaks, the circuit opens. */
const breaksPerCompleteAnswer = 0.5;
const openMsFirst = 5_000;
const openMsMax = 60_000;
/** While one request probes a recovering offer, the others still keep away this long. */
const probeMs = 5_000;
/** Offers remembered: tenants' own credentials make many. The one unused for longest goes. */
const conditionsMax = 10_000;
/** Weight of the newest observation in a moving average. */
const newestWeight = 0.2;

interface OfferHealth {
  failures: number;
  /** Answers that broke off after they had begun, less whole ones; counted in `failures`, too. */
  breaks: number;
  /** When an open circuit admits a probe; every probe moves this on. */
  openUntil: number;
  /** When the open circuit may first be probed; failures before that are of older requests. */
  probedFrom: number;
  openMs: number;
  firstByteMs: number | null;
  tokensPerSecond: number | null;
}

interface OfferIdentity {
  readonly provider: { readonly name: string };
  readonly upstreamModel: string;
  readonly own?: { readonly scope: string } | null;
}

export type CircuitState = 'closed' | 'open' | 'half_open';

export class Health {
  readonly #conditions = new Map<string, OfferHealth>();
  /** The last entry of the map: when used again, it need not be moved to the end. */
  #lastUsed = '';
  readonly #now: () => number;

  /** Waits do not go by the calendar: a clock that is set back must not prolong them. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Whether an offer may take its usual place now. A recovering one is admitted for a single
   * request, its probe: so this is asked only for requests that may go there.
   */
  admit(offer: OfferIdentity): boolean {
    const condition = this.#conditions.get(nameOf(offer));
    if (!condition || condition.failures < failuresToOpen) return true;
    const now = this.#now();
    if (condition.openUntil > now) return false;
    condition.openUntil = now + probeMs;
    return true;
  }

  state(offer: OfferIdentity): CircuitState {
    const condition = this.#conditions.get(nameOf(offer));
    if (!condition || condition.failures < failuresToOpen) return 'closed';
    return condition.openUntil > this.#now() ? 'open' : 'half_open';
  }

  /**
   * An answer has begun. That makes up for attempts that failed before their first word, but not
   * for answers that broke off later. Those may take minutes to break: where they opened the
   * circuit, other requests keep away until the probe's answer has ended, for a minute at most.
   */
  succeeded(offer: OfferIdentity, firstByteMs: number): void {
    const condition = this.#condition(offer);
    condition.firstByteMs = average(condition.firstByteMs, firstByteMs);
    condition.failures = condition.breaks;
    closeIfHealthy(condition);
    if (condition.failures < failuresToOpen) return;
    const now = this.#now();
    if (now >= condition.probedFrom) condition.openUntil = now + openMsMax;
  }

  /**
   * An answer that had begun has ended. A broken one counts as a failure. A whole one makes up for
   * broken ones alone, and closes a circuit that is on trial. Before a circuit may be probed it
   * does not count: it was under way when the circuit opened.
   */
  ended(offer: OfferIdentity, isComplete: boolean): void {
    const condition = this.#condition(offer);
    const { breaks } = condition;
    if (!isComplete) {
      condition.breaks++;
      this.failed(offer);
    } else if (breaks > 0 && this.#now() >= condition.probedFrom) {
      condition.breaks = Math.max(
        0,
        Math.min(breaks - breaksPerCompleteAnswer, failuresToOpen - 1),
      );
      condition.failures -= breaks - condition.breaks;
      closeIfHealthy(condition);
    }
  }

  failed(offer: OfferIdentity): void {
    const condition = this.#condition(offer);
    condition.failures++;
    const now = this.#now();
    // Requests under way when the circuit opened, or with nowhere else to go, tell nothing new.
    if (condition.failures < failuresToOpen || now < condition.probedFrom) return;
    condition.probedFrom = now + condition.openMs;
    condition.openUntil = condition.probedFrom;
    condition.openMs = Math.min(condition.openMs * 2, openMsMax);
  }

  /**
   * The offer refused a request that is itself at fault, which says nothing about the offer. If
   * that was its probe, the next request becomes it: else a row of bad requests would keep it away.
   */
  refused(offer: OfferIdentity): void {
    const condition = this.#condition(offer);
    const now = this.#now();
    const isProbed = now >= condition.probedFrom && condition.openUntil <= now + probeMs;
    if (isProbed) condition.openUntil = now;
  }

  observeSpeed(offer: OfferIdentity, tokensPerSecond: number): void {
    const condition = this.#condition(offer);
    condition.tokensPerSecond = average(condition.tokensPerSecond, tokensPerSecond);
  }

  /** Unknown offers count as fast: somebody has to try them first. */
  firstByteMs(offer: OfferIdentity): number {
    return this.#conditions.get(nameOf(offer))?.firstByteMs ?? 0;
  }

  tokensPerSecond(offer: OfferIdentity): number {
    return this.#conditions.get(nameOf(offer))?.tokensPerSecond ?? Number.POSITIVE_INFINITY;
  }

  /** What was measured, for people to read; null where nothing was. */
  observed(
    offer: OfferIdentity,
  ): Pick<OfferHealth, 'firstByteMs' | 'tokensPerSecond' | 'failures'> {
    const condition = this.#conditions.get(nameOf(offer));
    return {
      firstByteMs: rounded(condition?.firstByteMs),
      tokensPerSecond: rounded(condition?.tokensPerSecond),
      failures: Math.ceil(condition?.failures ?? 0),
    };
  }

  #condition(offer: OfferIdentity): OfferHealth {
    const name = nameOf(offer);
    const known = this.#conditions.get(name);
    if (known && name === this.#lastUsed) return known;
    const condition = known ?? {
      failures: 0,
      breaks: 0,
      openUntil: 0,
      probedFrom: 0,
      openMs: openMsFirst,
      firstByteMs: null,
      tokensPerSecond: null,
    };
    // Put in again, so that the first of the map is the one unused for longest.
    this.#conditions.delete(name);
    putBounded(this.#conditions, name, condition, conditionsMax);
    this.#lastUsed = name;
    return condition;
  }
}

const sharedNames = new WeakMap<OfferIdentity, string>();

/** Names of shared offers are kept; offers of own accounts are made anew for each request. */
function nameOf(offer: OfferIdentity): string {
  if (offer.own) return nameIn(offer.own.scope, offer);
  const known = sharedNames.get(offer);
  if (known !== undefined) return known;
  const name = nameIn('', offer);
  sharedNames.set(offer, name);
  return name;
}

function nameIn(scope: string, { provider, upstreamModel }: OfferIdentity): string {
  return `${provider.name}\n${upstreamModel}\n${scope}`;
}

function closeIfHealthy(condition: OfferHealth): void {
  if (condition.failures >= failuresToOpen) return;
  condition.probedFrom = 0;
  if (condition.breaks === 0) condition.openMs = openMsFirst;
}

/** Rounded for people: an average has more decimals than anybody measured. */
function rounded(value: number | null = null): number | null {
  return value === null ? null : Math.round(value * 100) / 100;
}

function average(before: number | null, now: number): number {
  return before === null ? now : before + newestWeight * (now - before);
}
