import type { Chore } from '../core/chore.ts';
import type { Log, LogFields } from './log.ts';

/** How often the log says how many requests an outage has cost since it last did. */
const everyMs = 60_000;

/** Whatever can be away has its own sentence; a few of these name a provider or a path. */
const sentencesMax = 100;

interface Outage {
  reason: string;
  requests: number;
  /** How many of these requests the log has been told of. */
  told: number;
}

/**
 * While something is away, every request fails for the same reason, and a line for each would bury
 * all others: the first is told whole, the rest are counted.
 */
export class OutageLines {
  readonly #log: Log;
  readonly #outages = new Map<string, Outage>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** `sentence` tells outages apart; the reason may differ from one request to the next. */
  failed(sentence: string, fields: LogFields & { readonly reason: string }): void {
    const outage = this.#outages.get(sentence);
    if (outage) {
      outage.requests += 1;
      outage.reason = fields.reason;
      return;
    }
    if (this.#outages.size < sentencesMax) {
      this.#outages.set(sentence, { reason: fields.reason, requests: 1, told: 1 });
    }
    this.#log.error('request_failed', fields);
  }

  chores(): Chore[] {
    return [{ everyMs, run: async () => this.#tell() }];
  }

  /** Called before the process ends, and its counts with it. */
  tellRest(): void {
    for (const outage of this.#outages.values()) this.#tellNew(outage);
  }

  /** A minute without a failure is taken for the end: nobody else says when that is. */
  #tell(): void {
    for (const [sentence, outage] of this.#outages) {
      if (this.#tellNew(outage)) continue;
      const { reason, requests } = outage;
      this.#outages.delete(sentence);
      if (requests > 1) this.#log.info('requests_served_again', { failed: requests, reason });
    }
  }

  #tellNew(outage: Outage): boolean {
    const requests = outage.requests - outage.told;
    if (requests === 0) return false;
    this.#log.error('requests_failed', { requests, reason: outage.reason });
    outage.told = outage.requests;
    return true;
  }
}
