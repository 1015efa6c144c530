import type { EndedRequest } from './ended-request.ts';
import type { Log } from './log.ts';

/** Every request to the provider fails alike: a line for each would bury all others. */
const everyMs = 60_000;

/** Providers that refuse the operator's account. Clients hear of it, and cannot mend it. */
export class RefusedAccounts {
  readonly #log: Log;
  readonly #toldAt = new Map<string, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  ended({ attempts }: Pick<EndedRequest, 'attempts'>): void {
    for (const { provider, outcome, own_account: isOwn } of attempts) {
      const isRefusal = outcome === 'credential' || outcome === 'quota';
      if (isRefusal && !isOwn) this.#tell(provider, outcome);
    }
  }

  #tell(provider: string, why: string): void {
    const now = performance.now();
    const last = this.#toldAt.get(provider);
    if (last !== undefined && now - last < everyMs) return;
    this.#toldAt.set(provider, now);
    this.#log.warn('account_refused', { provider, why });
  }
}
