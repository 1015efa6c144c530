import { monitorEventLoopDelay } from 'node:perf_hooks';
import { counter, type Family, gauge, labels } from './prometheus.ts';

// Metrics whose values are read at each scrape.

/** The accounting of one process. */
export interface AccountingState {
  /** Wallets and keys from which this process holds a lease. */
  readonly leases: number;
  readonly leasedCredits: number;
  /** Held for running requests. */
  readonly heldCredits: number;
  /** Settled, but not yet in the ledger. */
  readonly unbookedCredits: number;
  /** Sent to a provider and not ended yet. */
  readonly requestsInFlight: number;
  readonly journalBytes: number;
  /** Age of the oldest line whose request is not in the ledger. 0 if there is none. */
  readonly journalAgeMs: number;
  /** Settlements waiting to be written to the ledger. */
  readonly unbookedRequests: number;
  /** How long the oldest of them has waited. */
  readonly bookingLagMs: number;
  /** All requests that this process has booked. */
  readonly bookedRequests: number;
  /** Many requests wait, or one has waited for long. */
  readonly isBookingBehind: boolean;
}

type Circuit = 'closed' | 'half_open' | 'open';

export interface OfferCircuit {
  readonly provider: string;
  readonly model: string;
  readonly state: Circuit;
}

export function accountingFamilies(state: AccountingState): Family[] {
  return [
    gauge(
      'tollgate_leases',
      'Wallets and keys from which this process holds a lease.',
      state.leases,
    ),
    gauge('tollgate_leased_credits', 'Credits leased to this process.', state.leasedCredits),
    gauge('tollgate_held_credits', 'Credits held for running requests.', state.heldCredits),
    gauge(
      'tollgate_unbooked_credits',
      'Credits charged but not yet in the ledger.',
      state.unbookedCredits,
    ),
    gauge(
      'tollgate_requests_in_flight',
      'Requests sent to a provider that have not ended.',
      state.requestsInFlight,
    ),
    gauge('tollgate_journal_bytes', 'Size of the journal on disk.', state.journalBytes),
    gauge(
      'tollgate_journal_age_seconds',
      'Age of the oldest journal line whose request is not in the ledger.',
      state.journalAgeMs / 1000,
    ),
    gauge(
      'tollgate_unbooked_requests',
      'Ended requests that are not in the ledger yet.',
      state.unbookedRequests,
    ),
    gauge(
      'tollgate_settlement_lag_seconds',
      'How long the oldest ended request has waited to be written to the ledger.',
      state.bookingLagMs / 1000,
    ),
    counter(
      'tollgate_booked_requests_total',
      'Ended requests written to the ledger.',
      state.bookedRequests,
    ),
    gauge(
      'tollgate_booking_behind',
      '1 while booking is behind: many ended requests wait for the ledger, or one for long.',
      state.isBookingBehind ? 1 : 0,
    ),
  ];
}

/** Which version of the configuration in the store a process uses. */
export interface ConfigVersions {
  readonly appliedVersion: number;
  readonly problems: readonly string[];
}

export function configFamilies({ appliedVersion, problems }: ConfigVersions): Family[] {
  return [
    gauge(
      'tollgate_config_version',
      'Version of the configuration in the store that is in use.',
      appliedVersion,
    ),
    gauge(
      'tollgate_config_problems',
      'Problems that keep the latest configuration in the store from being used.',
      problems.length,
    ),
  ];
}

const circuitNumbers: Readonly<Record<Circuit, number>> = { closed: 0, half_open: 1, open: 2 };

export function circuitFamily(states: readonly OfferCircuit[]): Family {
  const samples = states.map(({ provider, model, state }) => ({
    labels: labels({ provider, model }),
    value: circuitNumbers[state],
  }));
  const help = 'Circuit breaker of shared capacity: 0 closed, 1 half-open, 2 open.';
  return { name: 'tollgate_circuit_state', help, type: 'gauge', samples };
}

/** How many keys of a provider are in each state. Labels are public, so keys aren't named. */
export function providerKeyFamily(
  counts: readonly { readonly provider: string; readonly state: string; readonly keys: number }[],
): Family {
  const samples = counts.map(({ provider, state, keys }) => ({
    labels: labels({ provider, state }),
    value: keys,
  }));
  const help = 'Keys of providers with several keys, by state.';
  return { name: 'tollgate_provider_keys', help, type: 'gauge', samples };
}

/** Fine enough for delays that a client notices, coarse enough to be cheap. */
const lagResolutionMs = 20;

/** Metrics of the process, under the names that Prometheus exporters use. */
export class ProcessGauges {
  readonly #lag = monitorEventLoopDelay({ resolution: lagResolutionMs });
  readonly #startedSeconds = Date.now() / 1000 - process.uptime();

  constructor() {
    this.#lag.enable();
  }

  families(): Family[] {
    const { rss, heapUsed } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    return [
      this.#lagFamily(),
      gauge('process_resident_memory_bytes', 'Resident memory of the process.', rss),
      gauge('tollgate_heap_used_bytes', 'Heap memory in use.', heapUsed),
      counter('process_cpu_seconds_total', 'CPU time used by the process.', (user + system) / 1e6),
      gauge(
        'process_start_time_seconds',
        'Unix time at which the process started.',
        this.#startedSeconds,
      ),
    ];
  }

  stop(): void {
    this.#lag.disable();
  }

  /** Measures since the last scrape, so that an old maximum does not hide newer values. */
  #lagFamily(): Family {
    const seconds = (nanoseconds: number) =>
      Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds) / 1e9 : 0;
    const samples = [
      { labels: 'percentile="50"', value: seconds(this.#lag.percentile(50)) },
      { labels: 'percentile="99"', value: seconds(this.#lag.percentile(99)) },
      { labels: 'percentile="100"', value: seconds(this.#lag.max) },
    ];
    this.#lag.reset();
    const help = 'Event loop delay since the last scrape.';
    return { name: 'tollgate_event_loop_lag_seconds', help, type: 'gauge', samples };
  }
}
