/** Requests of one tenant running at the same time in this process. */
export class ConcurrencyLimiter {
  readonly #running = new Map<string, number>();

  /** Takes a place; false when all are taken. Each true needs one `leave`. */
  enter(tenantId: string, limit: number): boolean {
    const running = this.#running.get(tenantId) ?? 0;
    if (running >= limit) return false;
    this.#running.set(tenantId, running + 1);
    return true;
  }

  leave(tenantId: string): void {
    const running = this.#running.get(tenantId) ?? 0;
    if (running > 1) this.#running.set(tenantId, running - 1);
    else this.#running.delete(tenantId);
  }
}
