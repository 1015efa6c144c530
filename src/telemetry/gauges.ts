import { monitorEventLoopDelay } from 'node:perf_hooks';
import { counter, type Family, gauge, labels } from './prometheus.ts';

/** The state of the books and of the providers at the moment somebody reads the metrics. */

/** The state of the money's way into the books, in one process. */
export interface AccountingState {
  /** Accounts of which this process has credits on lease. */
  readonly leases: number;
  readonly leasedCredits: number;
  /** Set aside for running requests. */
  readonly heldCredits: number;
  /** Settled and not booked yet. */
  readonly owedCredits: number;
  /** Sent to a provider and not ended. */
  readonly requestsInFlight: number;
  readonly journalBytes: number;
  /** Of the oldest line whose request is not in the books; 0 when all are. */
  readonly journalAgeMs: number;
  /** Settlements waiting for the store, and how long the oldest has waited. */
  readonly unbookedRequests: number;
  readonly bookingLagMs: number;
}

type Circuit = 'closed' | 'half_open' | 'open';

export interface OfferCircuit {
  readonly provider: string;
  readonly model: string;
  readonly state: Circuit;
}

export function accountingFamilies(state: AccountingState): Family[] {
  return [
    gauge('tollgate_leases', 'Accounts with credits on lease here.', state.leases),
    gauge('tollgate_leased_credits', 'Credits on lease here.', state.leasedCredits),
    gauge('tollgate_held_credits', 'Credits held by running requests.', state.heldCredits),
    gauge('tollgate_owed_credits', 'Credits charged and not booked yet.', state.owedCredits),
    gauge(
      'tollgate_requests_under_way',
      'Requests sent to a provider that have not ended.',
      state.requestsInFlight,
    ),
    gauge('tollgate_journal_bytes', 'Size of the journal on disk.', state.journalBytes),
    gauge(
      'tollgate_journal_age_seconds',
      'Age of the oldest journal line whose request is not booked.',
      state.journalAgeMs / 1000,
    ),
    gauge(
      'tollgate_drain_waiting',
      'Ended requests that are not booked yet.',
      state.unbookedRequests,
    ),
    gauge(
      'tollgate_drain_lag_seconds',
      'How long the oldest ended request has waited to be booked.',
      state.bookingLagMs / 1000,
    ),
  ];
}

const circuitNumbers: Readonly<Record<Circuit, number>> = { closed: 0, half_open: 1, open: 2 };

export function circuitFamily(states: readonly OfferCircuit[]): Family {
  const samples = states.map(({ provider, model, state }) => ({
    labels: labels({ provider, model }),
    value: circuitNumbers[state],
  }));
  const help = 'Shared capacity: 0 in use, 1 being tried again, 2 left alone after failures.';
  return { name: 'tollgate_circuit_state', help, type: 'gauge', samples };
}

/** Fine enough to see what a client would feel, coarse enough to cost nothing. */
const lagResolutionMs = 20;

/** This process as the operating system sees it, under the names that every exporter uses. */
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
      gauge('process_resident_memory_bytes', 'Memory held by the process.', rss),
      gauge('tollgate_heap_used_bytes', 'Memory in use by the program.', heapUsed),
      counter('process_cpu_seconds_total', 'CPU time used.', (user + system) / 1e6),
      gauge('process_start_time_seconds', 'When the process started.', this.#startedSeconds),
    ];
  }

  stop(): void {
    this.#lag.disable();
  }

  /** Since the last look: a worst case of last week would help nobody. */
  #lagFamily(): Family {
    const seconds = (nanoseconds: number) =>
      Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds) / 1e9 : 0;
    const samples = [
      { labels: 'percentile="50"', value: seconds(this.#lag.percentile(50)) },
      { labels: 'percentile="99"', value: seconds(this.#lag.percentile(99)) },
      { labels: 'percentile="100"', value: seconds(this.#lag.max) },
    ];
    this.#lag.reset();
    const help = 'How late the event loop was since metrics were last read.';
    return { name: 'tollgate_event_loop_lag_seconds', help, type: 'gauge', samples };
  }
}
