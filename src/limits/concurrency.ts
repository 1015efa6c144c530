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
