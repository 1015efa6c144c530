import { putBounded } from '../core/bounded-map.ts';
import { unknownModelNamesMax, unknownModelTenantsMax } from '../core/bounds.ts';
import { dayOf } from './period.ts';

interface DailyNames {
  readonly day: number;
  readonly names: Set<string>;
}

/**
 * The names of models that callers made up. The daily sums keep a row for each name of a day for
 * ever, so a caller with many of them could make everybody's reads slow, free of charge.
 */
export class UnknownModelNames {
  readonly #now: () => number;
  readonly #byTenant = new Map<string, DailyNames>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /**
   * How the books call a model that there is not: by the name itself for the first ones of a tenant
   * on a day, `otherwise` for all others. The reason of a refusal tells the name all the same.
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
