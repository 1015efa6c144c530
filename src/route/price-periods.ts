import { putBounded } from '../core/bounded-map.ts';

/** Late requests may need the period before the current one. Others are built again if needed. */
const periodsMax = 3;

/**
 * The prices of one configuration: one object for each plan and each period between two price
 * changes. A request uses those of the moment at which it began, so its route, hold, and charge
 * agree, and prices change in every process at the same time, without a reload.
 */
export class PricePeriods<Prices extends object> {
  /** Times at which any price changes, in ascending order. */
  readonly #changes: readonly number[];
  readonly #build: (at: number, plan: string | null) => Prices;
  readonly #periods = new Map<string, Period<Prices>>();
  #current: Period<Prices>;

  constructor(changes: Iterable<number>, build: (at: number, plan: string | null) => Prices) {
    this.#changes = [...new Set(changes)].sort((a, b) => a - b);
    this.#build = build;
    this.#current = this.#periodAt(Date.now());
  }

  /** Returns the prices of a moment, in epoch milliseconds. */
  pricesAt(at: number, plan: string | null): Prices {
    const current = this.#current;
    const period = at >= current.from && at < current.until ? current : this.#enter(at);
    const known = period.byPlan.get(plan);
    if (known) return known;
    const prices = this.#build(period.from, plan);
    period.byPlan.set(plan, prices);
    return prices;
  }

  #enter(at: number): Period<Prices> {
    const period = this.#periodAt(at);
    // A late request of an earlier period must not replace the current one.
    if (period.from > this.#current.from) this.#current = period;
    return period;
  }

  #periodAt(at: number): Period<Prices> {
    const next = this.#changes.findIndex((time) => time > at);
    const index = next === -1 ? this.#changes.length : next;
    const name = String(index);
    const known = this.#periods.get(name);
    if (known) return known;
    const from = this.#changes[index - 1] ?? Number.NEGATIVE_INFINITY;
    const until = this.#changes[index] ?? Number.POSITIVE_INFINITY;
    const period: Period<Prices> = { from, until, byPlan: new Map() };
    putBounded(this.#periods, name, period, periodsMax);
    return period;
  }
}

interface Period<Prices> {
  /** Inclusive, in epoch milliseconds. */
  readonly from: number;
  /** Exclusive. */
  readonly until: number;
  /** By plan. Operators configure few plans. */
  readonly byPlan: Map<string | null, Prices>;
}
