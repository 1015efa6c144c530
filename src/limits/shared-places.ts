import { placeLeftMs, placeRenewMs, placesPerMessage, placeTtlMs } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import type { SharedCounts } from './shared-counts.ts';

interface Tenant {
  readonly places: Set<string>;
  /** Places given back here but not reported yet: the tenant's next request reports them. */
  left: string[];
  /** Requests elsewhere may be waiting for a place: one that is given back is reported at once. */
  isCrowded: boolean;
}

/**
 * The places that this process's running requests have among those of all processes. Each is an
 * entry of its own that ends by itself unless it is renewed: a killed process frees its places, and
 * a shared memory that lost everything learns them again.
 */
export class SharedPlaces {
  readonly #shared: SharedCounts;
  readonly #processId: string;
  readonly #tenants = new Map<string, Tenant>();
  #last = 0;
  /** For how long the shared memory has been out of reach. */
  #untoldMs = 0;

  constructor(shared: SharedCounts, processId: string) {
    this.#shared = shared;
    this.#processId = processId;
  }

  /**
   * The place, or undefined when all are taken. While the shared memory is out of reach, the place
   * is taken all the same and reported later.
   */
  async enter(tenantId: string, limit: number): Promise<string | undefined> {
    const place = `${this.#processId}:${++this.#last}`;
    const found = this.#shared.isUp
      ? await this.#shared.enter(tenantId, place, limit, this.#takeLeft(tenantId))
      : undefined;
    const tenant = this.#tenants.get(tenantId) ?? { places: new Set(), left: [], isCrowded: true };
    tenant.isCrowded = found === undefined || found.taken * 2 > limit;
    if (found?.isFree === false) return undefined;
    this.#tenants.set(tenantId, tenant);
    tenant.places.add(place);
    return place;
  }

  leave(tenantId: string, place: string): void {
    const tenant = this.#tenants.get(tenantId);
    if (!tenant?.places.delete(place)) return;
    tenant.left.push(place);
    if (tenant.isCrowded || tenant.left.length >= placesPerMessage) void this.#tell(tenantId);
  }

  chores(): Chore[] {
    return [
      { everyMs: placeRenewMs, run: () => this.renew() },
      { everyMs: placeLeftMs, run: () => this.tellLeft() },
    ];
  }

  /** Reports places given back that no later request of their tenant has reported. */
  async tellLeft(): Promise<void> {
    // Checked once for all tenants: their places stay in the list until they can be reported.
    if (!this.#shared.isUp) return;
    await Promise.all([...this.#tenants.keys()].map((tenantId) => this.#tell(tenantId)));
  }

  async renew(): Promise<void> {
    this.#untoldMs = this.#shared.isUp ? 0 : this.#untoldMs + placeRenewMs;
    // After so long, the places that were given back have ended by themselves.
    if (this.#untoldMs > placeTtlMs) for (const name of this.#tenants.keys()) this.#takeLeft(name);
    for (const [tenantId, { places }] of this.#tenants) {
      const all = [...places];
      for (let at = 0; at < all.length && this.#shared.isUp; at += placesPerMessage) {
        // Places that were given back while an earlier part was renewed must not be renewed.
        const still = all.slice(at, at + placesPerMessage).filter((place) => places.has(place));
        if (still.length > 0) await this.#shared.renew(tenantId, still);
      }
    }
  }

  async #tell(tenantId: string): Promise<void> {
    if (!this.#shared.isUp) {
      // If the shared memory is away only for a moment, it still counts these places. What is more
      // than fits into one message ends by itself.
      this.#tenants.get(tenantId)?.left.splice(placesPerMessage);
      return;
    }
    const left = this.#takeLeft(tenantId);
    if (left.length > 0) await this.#shared.leave(tenantId, left);
  }

  #takeLeft(tenantId: string): readonly string[] {
    const tenant = this.#tenants.get(tenantId);
    if (!tenant) return [];
    const { left } = tenant;
    tenant.left = [];
    if (tenant.places.size === 0) this.#tenants.delete(tenantId);
    return left;
  }
}
