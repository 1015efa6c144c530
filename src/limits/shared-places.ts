import { placeLeftMs, placeRenewMs, placesPerMessage, placeTtlMs } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import type { SharedCounts } from './shared-counts.ts';

interface Tenant {
  readonly places: Set<string>;
  /** Left here and not reported yet: the next request of the tenant does it on its way. */
  left: string[];
  /** Others may be waiting for a place: they are told at once. */
  isCrowded: boolean;
}

/**
 * The places that this process's running requests have among those of all processes. Each is an
 * entry of its own that ends by itself unless it is renewed: a killed process frees its places, and
 * a memory that forgot everything learns them again.
 */
export class SharedPlaces {
  readonly #shared: SharedCounts;
  readonly #processId: string;
  readonly #tenants = new Map<string, Tenant>();
  #last = 0;
  /** For how long nobody could be told of anything. */
  #untoldMs = 0;

  constructor(shared: SharedCounts, processId: string) {
    this.#shared = shared;
    this.#processId = processId;
  }

  /**
   * The place, or undefined when all are taken. Where nobody can be asked, it is taken and told
   * later.
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

  /** For places that no later request of their tenant has reported along with its own. */
  async tellLeft(): Promise<void> {
    // Asked once: each tenant that has left places stays until somebody can be told of them.
    if (!this.#shared.isUp) return;
    await Promise.all([...this.#tenants.keys()].map((tenantId) => this.#tell(tenantId)));
  }

  async renew(): Promise<void> {
    this.#untoldMs = this.#shared.isUp ? 0 : this.#untoldMs + placeRenewMs;
    // By then, what was left before has ended by itself.
    if (this.#untoldMs > placeTtlMs) for (const name of this.#tenants.keys()) this.#takeLeft(name);
    for (const [tenantId, { places }] of this.#tenants) {
      const all = [...places];
      for (let at = 0; at < all.length && this.#shared.isUp; at += placesPerMessage) {
        // Those that were left while an earlier part was renewed stay left.
        const still = all.slice(at, at + placesPerMessage).filter((place) => places.has(place));
        if (still.length > 0) await this.#shared.renew(tenantId, still);
      }
    }
  }

  async #tell(tenantId: string): Promise<void> {
    if (!this.#shared.isUp) {
      // Who was away for a moment still counts them; beyond one message, they end by themselves.
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
