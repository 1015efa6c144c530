import { slotReleaseMs, slotRenewMs, slotsPerMessage, slotTtlMs } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { SharedCounts } from './shared-counts.ts';

/** Counts each tenant's running requests in this process. */
export class ConcurrencyLimiter {
  readonly #running = new Map<string, number>();

  /** Acquires a slot. Returns false if all are in use. Each acquired slot needs one `release`. */
  acquire(tenantId: string, limit: number): boolean {
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= limit) return false;
    this.#running.set(tenantId, running + 1);
    return true;
  }

  release(tenantId: string): void {
    const running = this.#running.get(tenantId) ?? 0;
    if (running > 1) this.#running.set(tenantId, running - 1);
    else this.#running.delete(tenantId);
  }
}

interface TenantSlots {
  readonly slots: Set<string>;
  /** Slots released here but not reported yet. The tenant's next request reports them. */
  released: string[];
  /**
   * True if other processes may be waiting for a slot. Released slots are then reported at once.
   */
  isNearLimit: boolean;
}

/**
 * Tracks this process's slots among those of all processes. Each slot is a separate entry in Redis
 * that expires unless it is renewed. So a killed process frees its slots, and renewals restore all
 * slots if Redis has lost its data.
 */
export class SharedSlots {
  readonly #shared: SharedCounts;
  readonly #processId: string;
  readonly #tenants = new Map<string, TenantSlots>();
  #last = 0;
  /** How long Redis has been unreachable. */
  #unreachableMs = 0;

  constructor(shared: SharedCounts, processId: string) {
    this.#shared = shared;
    this.#processId = processId;
  }

  /**
   * Acquires a slot, or returns undefined if all are in use. While Redis is unreachable, the
   * slot is acquired anyway and reported later.
   */
  async enter(tenantId: string, limit: number): Promise<string | undefined> {
    const slot = `${this.#processId}:${++this.#last}`;
    const result = this.#shared.isUp
      ? await this.#shared.acquire(tenantId, slot, limit, this.#takeReleased(tenantId))
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

  /** Reports released slots that no later request of their tenant has reported. */
  async reportReleased(): Promise<void> {
    // Check once for all tenants. Unreported slots stay in their lists.
    if (!this.#shared.isUp) return;
    await Promise.all([...this.#tenants.keys()].map((tenantId) => this.#reportTenant(tenantId)));
  }

  async renew(): Promise<void> {
    this.#unreachableMs = this.#shared.isUp ? 0 : this.#unreachableMs + slotRenewMs;
    // After this long, released slots have expired in Redis.
    if (this.#unreachableMs > slotTtlMs)
      for (const tenantId of this.#tenants.keys()) this.#takeReleased(tenantId);
    for (const [tenantId, { slots }] of this.#tenants) {
      const all = [...slots];
      for (let index = 0; index < all.length && this.#shared.isUp; index += slotsPerMessage) {
        // Don't renew slots that were released while earlier ones were renewed.
        const active = all.slice(index, index + slotsPerMessage).filter((slot) => slots.has(slot));
        if (active.length > 0) await this.#shared.renew(tenantId, active);
      }
    }
  }

  async #reportTenant(tenantId: string): Promise<void> {
    if (!this.#shared.isUp) {
      // Keep as many released slots as fit in one message, to report them after the outage. The
      // others expire in Redis.
      this.#tenants.get(tenantId)?.released.splice(slotsPerMessage);
      return;
    }
    const released = this.#takeReleased(tenantId);
    if (released.length > 0) await this.#shared.release(tenantId, released);
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
