import { putBounded } from '../core/bounded-map.ts';
import { GatewayError } from '../core/errors.ts';

/** Tenants whose reads are remembered. The oldest is forgotten, which gives it a full quota. */
const tenantsMax = 10_000;

/** How much of a minute's quota can be used at once. */
const burstSeconds = 2;

interface Quota {
  reads: number;
  at: number;
}

/**
 * Limits the requests of a tenant that aren't model calls: reads of its data and changes of its
 * keys. They use no credits, so without a limit, one tenant could occupy the process with them. The
 * quota refills steadily, because a minute's quota in one second would delay all other requests.
 */
export class ReadRate {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #perMinute: number;
  readonly #quotas = new Map<string, Quota>();

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
    this.#perMs = perMinute / 60_000;
    this.#burst = Math.max(1, this.#perMs * burstSeconds * 1000);
  }

  /** Counts one request. Throws 429 if the quota is exhausted. */
  take(tenantId: string, now = performance.now()): void {
    const quota = this.#quotas.get(tenantId) ?? this.#add(tenantId, now);
    quota.reads = Math.min(this.#burst, quota.reads + (now - quota.at) * this.#perMs);
    quota.at = now;
    if (quota.reads < 1) {
      const message =
        `This account is limited to ${this.#perMinute} reads and management requests per ` +
        'minute. Send them more slowly.';
      const retryAfterSeconds = Math.ceil((1 - quota.reads) / this.#perMs / 1000);
      throw new GatewayError('rate_limit_exceeded', message, { retryAfterSeconds });
    }
    quota.reads -= 1;
  }

  #add(tenantId: string, now: number): Quota {
    const quota = { reads: this.#burst, at: now };
    putBounded(this.#quotas, tenantId, quota, tenantsMax);
    return quota;
  }
}
