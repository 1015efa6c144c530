import { putBounded } from '../core/bounded-map.ts';
import { unknownModelNamesMax, unknownModelTenantsMax } from '../core/bounds.ts';
import { dayOf } from './period.ts';

interface DailyNames {
  readonly day: number;
  readonly names: Set<string>;
}

/**
 * Bounds the number of unknown model names in the daily sums. The sums keep a row for each name and
 * day forever. Without the bound, a caller could slow down everyone's reads for free.
 */
export class UnknownModelNames {
  readonly #now: () => number;
  readonly #byTenant = new Map<string, DailyNames>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /**
   * Returns the name to record for an unknown model: the name itself for the first unknown names
   * that a tenant uses in a day, then `fallback`. The error message still has the actual name.
   */
  recordedAs(tenantId: string, name: string, fallback = 'unknown'): string {
    const names = this.#today(tenantId);
    if (names.size < unknownModelNamesMax) names.add(name);
    return names.has(name) ? name : fallback;
  }

  #today(tenantId: string): Set<string> {
    const day = dayOf(this.#now());
    const known = this.#byTenant.get(tenantId);
    if (known?.day === day) return known.names;
    const names = new Set<string>();
    this.#byTenant.delete(tenantId);
    putBounded(this.#byTenant, tenantId, { day, names }, unknownModelTenantsMax);
    return names;
  }
}
