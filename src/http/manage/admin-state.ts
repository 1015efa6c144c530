import type { Catalogue, Offer } from '../../route/catalogue.ts';
import type { CircuitState, Health } from '../../route/health.ts';
import type { BooksState } from '../../telemetry/gauges.ts';
import type { RecentCalls } from '../../telemetry/recent-calls.ts';
import { adminDocs } from '../openapi/admin.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';

interface StateParts {
  readonly catalogue: Catalogue;
  readonly health: Pick<Health, 'state' | 'observed'>;
  /** How the latest calls to each provider ended. */
  readonly recent: { calls(): ReadonlyMap<string, RecentCalls> };
  /** How far the books are behind the answers. */
  booksState(): BooksState;
}

const admin = routesFor({ access: 'admin' });

/** The state of the process that answers; other processes may be doing better or worse. */
export function stateRoutes(parts: StateParts): Route[] {
  return [
    admin.get('/admin/v1/providers', adminDocs.providers, (exchange) =>
      json(exchange, { data: providerObjects(parts) }),
    ),
    admin.get('/admin/v1/books', adminDocs.books, (exchange) => {
      const state = parts.booksState();
      const { requestsUnderWay: running, drainWaiting: waiting } = state;
      const data = { running, waiting, journal_bytes: state.journalBytes };
      return json(exchange, { data });
    }),
  ];
}

const worstFirst: readonly CircuitState[] = ['open', 'half_open', 'closed'];

function providerObjects({ catalogue, health, recent }: StateParts) {
  const calls = recent.calls();
  const offers = catalogue.live().flatMap(({ id }) => catalogue.offers(id));
  const byProvider = Map.groupBy(offers, ({ provider }) => provider.name);
  return [...byProvider].map(([name, served]) => {
    const endpoints = served.map((offer) => endpointObject(offer, health));
    const circuit = worstFirst.find((state) => endpoints.some((one) => one.circuit === state));
    const dialect = served[0]?.provider.dialect;
    return { name, dialect, circuit, recent: recentObject(calls.get(name)), endpoints };
  });
}

/** Null where nobody called the provider. */
function recentObject(recent: RecentCalls | undefined) {
  if (!recent) return null;
  const { windowSeconds, calls, failedCalls, failures } = recent;
  return { window_seconds: windowSeconds, calls, failed_calls: failedCalls, failures };
}

function endpointObject(offer: Offer, health: StateParts['health']) {
  const { firstByteMs, tokensPerSecond, failures } = health.observed(offer);
  return {
    model: offer.model.id,
    upstream_model: offer.upstreamModel,
    priority: offer.priority,
    circuit: health.state(offer),
    failures_in_a_row: failures,
    first_byte_ms: firstByteMs,
    tokens_per_second: tokensPerSecond,
  };
}
