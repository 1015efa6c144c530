import type { Catalogue, Offer } from '../../route/catalogue.ts';
import type { CircuitState, Health } from '../../route/health.ts';
import type { BooksState } from '../../telemetry/gauges.ts';
import type { RecentCalls } from '../../telemetry/recent-calls.ts';
import { adminDocs } from '../openapi/admin.ts';
import { json } from '../reply.ts';
import type { Route } from '../routes.ts';

interface OperationParts {
  readonly catalogue: Catalogue;
  readonly health: Pick<Health, 'state' | 'observed'>;
  /** What came of the calls to each provider lately. */
  readonly recent: { calls(): ReadonlyMap<string, RecentCalls> };
  /** How far the books are behind the answers. */
  booksState(): BooksState;
}

/** How the process that answers is doing; beside it others may be doing better or worse. */
export function operationRoutes(parts: OperationParts): Route[] {
  return [
    {
      method: 'GET',
      path: '/admin/v1/providers',
      doc: adminDocs.providers,
      access: 'admin',
      handle: (exchange) => json(exchange, { data: providerObjects(parts) }),
    },
    {
      method: 'GET',
      path: '/admin/v1/books',
      doc: adminDocs.books,
      access: 'admin',
      handle(exchange) {
        const state = parts.booksState();
        const { requestsUnderWay: running, drainWaiting: waiting } = state;
        const data = { running, waiting, journal_bytes: state.journalBytes };
        return json(exchange, { data });
      },
    },
  ];
}

const worstFirst: readonly CircuitState[] = ['open', 'half_open', 'closed'];

function providerObjects({ catalogue, health, recent }: OperationParts) {
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

/** Null where nobody called it. */
function recentObject(recent: RecentCalls | undefined) {
  if (!recent) return null;
  const { windowSeconds, calls, failedCalls, failures } = recent;
  return { window_seconds: windowSeconds, calls, failed_calls: failedCalls, failures };
}

function endpointObject(offer: Offer, health: OperationParts['health']) {
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
