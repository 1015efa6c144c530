import { type Family, gauge, labels } from './exposition.ts';

/** The state of the books and of the providers at the moment somebody reads the metrics. */

/** The state of the money's way into the books, in one process. */
export interface BooksState {
  /** Accounts of which this process has credits on lease. */
  readonly leases: number;
  readonly leasedCredits: number;
  /** Set aside for running requests. */
  readonly heldCredits: number;
  /** Settled and not booked yet. */
  readonly owedCredits: number;
  /** Sent to a provider and not ended. */
  readonly requestsUnderWay: number;
  readonly journalBytes: number;
  /** Of the oldest line whose request is not in the books; 0 when all are. */
  readonly journalAgeMs: number;
  /** Settlements waiting for the store, and how long the oldest has waited. */
  readonly drainWaiting: number;
  readonly drainLagMs: number;
}

type Circuit = 'closed' | 'half_open' | 'open';

export interface OfferCircuit {
  readonly provider: string;
  readonly model: string;
  readonly state: Circuit;
}

export function booksFamilies(state: BooksState): Family[] {
  return [
    gauge('tollgate_leases', 'Accounts with credits on lease here.', state.leases),
    gauge('tollgate_leased_credits', 'Credits on lease here.', state.leasedCredits),
    gauge('tollgate_held_credits', 'Credits held by running requests.', state.heldCredits),
    gauge('tollgate_owed_credits', 'Credits charged and not booked yet.', state.owedCredits),
    gauge(
      'tollgate_requests_under_way',
      'Requests sent to a provider that have not ended.',
      state.requestsUnderWay,
    ),
    gauge('tollgate_journal_bytes', 'Size of the journal on disk.', state.journalBytes),
    gauge(
      'tollgate_journal_age_seconds',
      'Age of the oldest journal line whose request is not booked.',
      state.journalAgeMs / 1000,
    ),
    gauge('tollgate_drain_waiting', 'Ended requests that are not booked yet.', state.drainWaiting),
    gauge(
      'tollgate_drain_lag_seconds',
      'How long the oldest ended request has waited to be booked.',
      state.drainLagMs / 1000,
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
