import type { Chore } from '../core/chore.ts';
import type { Fields, Log } from './log.ts';

/** How often the log says how many requests an outage has cost since it last did. */
const everyMs = 60_000;

/** What can be away has a sentence each; a few of them name a provider or a path. */
const sentencesMax = 100;

interface Outage {
  reason: string;
  requests: number;
  /** Of them, those that the log knows of. */
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
  failed(sentence: string, fields: Fields & { readonly reason: string }): void {
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

  /** A minute without a failure is taken for the end: nobody else says when that is. */
  #tell(): void {
    for (const [sentence, outage] of this.#outages) {
      const { reason, requests, told } = outage;
      if (requests > told) {
        this.#log.error('requests_failed', { requests: requests - told, reason });
        outage.told = requests;
        continue;
      }
      this.#outages.delete(sentence);
      if (requests > 1) this.#log.info('requests_served_again', { failed: requests, reason });
    }
  }
}
