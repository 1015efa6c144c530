import type { EndedRequest } from './ended-request.ts';
import type { Log } from './log.ts';

/** One line per provider in this time, because every request to it fails the same way. */
const reportMs = 60_000;

/** Logs providers that reject the operator's account, which clients can't fix. */
export class RejectedAccountLog {
  readonly #log: Log;
  readonly #reportedAt = new Map<string, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  ended({ attempts }: Pick<EndedRequest, 'attempts'>): void {
    for (const { provider, outcome, own_account: isOwn } of attempts) {
      const isRejection = outcome === 'credential' || outcome === 'quota';
      if (isRejection && !isOwn) this.#report(provider, outcome);
    }
  }

  #report(provider: string, reason: string): void {
    const now = performance.now();
    const last = this.#reportedAt.get(provider);
    if (last !== undefined && now - last < reportMs) return;
    this.#reportedAt.set(provider, now);
    this.#log.warn('provider_account_rejected', { provider, reason });
  }
}
