import { slotReleaseMs, slotRenewMs, slotsPerMessage, slotTtlMs } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { SharedCounts } from './shared-counts.ts';

interface TenantSlots {
  readonly slots: Set<string>;
  /** Places given back here but not reported yet: the tenant's next request reports them. */
  released: string[];
  /** Requests elsewhere may be waiting for a place: one that is given back is reported at once. */
  isNearLimit: boolean;
}

/**
 * The places that this process's running requests have among those of all processes. Each is an
 * entry of its own that ends by itself unless it is renewed: a killed process frees its places, and
 * a shared memory that lost everything learns them again.
 */
export class SharedSlots {
  readonly #shared: SharedCounts;
  readonly #processId: string;
  readonly #tenants = new Map<string, TenantSlots>();
  #last = 0;
  /** For how long the shared memory has been out of reach. */
  #unreachableMs = 0;

  constructor(shared: SharedCounts, processId: string) {
    this.#shared = shared;
    this.#processId = processId;
  }

  /**
   * The place, or undefined when all are taken. While the shared memory is out of reach, the place
   * is taken all the same and reported later.
   */
  async enter(tenantId: string, limit: number): Promise<string | undefined> {
    const slot = `${this.#processId}:${++this.#last}`;
    const result = this.#shared.isUp
      ? await this.#shared.enter(tenantId, slot, limit, this.#takeReleased(tenantId))
      : undefined;
    const tenant = this.#tenants.get(tenantId) ?? {
      slots: new Set(),
      released: [],
      isNearLimit: true,
    };
    tenant.isNearLimit = result === undefined || result.running * 2 > limit;
    if (result?.isFree === false) return undefined;
    this.#tenants.set(tenantId, tenant);
    tenant.slots.add(slot);
    return slot;
  }

  leave(tenantId: string, slot: string): void {
    const tenant = this.#tenants.get(tenantId);
    if (!tenant?.slots.delete(slot)) return;
    tenant.released.push(slot);
    if (tenant.isNearLimit || tenant.released.length >= slotsPerMessage)
      void this.#reportTenant(tenantId);
  }

  periodicTasks(): PeriodicTask[] {
    return [
      { everyMs: slotRenewMs, run: () => this.renew() },
      { everyMs: slotReleaseMs, run: () => this.reportReleased() },
    ];
  }

  /** Reports places given back that no later request of their tenant has reported. */
  async reportReleased(): Promise<void> {
    // Checked once for all tenants: their places stay in the list until they can be reported.
    if (!this.#shared.isUp) return;
    await Promise.all([...this.#tenants.keys()].map((tenantId) => this.#reportTenant(tenantId)));
  }

  async renew(): Promise<void> {
    this.#unreachableMs = this.#shared.isUp ? 0 : this.#unreachableMs + slotRenewMs;
    // After so long, the places that were given back have ended by themselves.
    if (this.#unreachableMs > slotTtlMs)
      for (const name of this.#tenants.keys()) this.#takeReleased(name);
    for (const [tenantId, { slots }] of this.#tenants) {
      const all = [...slots];
      for (let index = 0; index < all.length && this.#shared.isUp; index += slotsPerMessage) {
        // Places that were given back while an earlier part was renewed must not be renewed.
        const active = all.slice(index, index + slotsPerMessage).filter((slot) => slots.has(slot));
        if (active.length > 0) await this.#shared.renew(tenantId, active);
      }
    }
  }

  async #reportTenant(tenantId: string): Promise<void> {
    if (!this.#shared.isUp) {
      // If the shared memory is away only for a moment, it still counts these places. What is more
      // than fits into one message ends by itself.
      this.#tenants.get(tenantId)?.released.splice(slotsPerMessage);
      return;
    }
    const released = this.#takeReleased(tenantId);
    if (released.length > 0) await this.#shared.leave(tenantId, released);
  }

  #takeReleased(tenantId: string): readonly string[] {
    const tenant = this.#tenants.get(tenantId);
    if (!tenant) return [];
    const { released } = tenant;
    tenant.released = [];
    if (tenant.slots.size === 0) this.#tenants.delete(tenantId);
    return released;
  }
}
