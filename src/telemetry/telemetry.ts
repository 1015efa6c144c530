import type { Config } from '../config/config.ts';
import type { Tracing } from '../config/environment.ts';
import { version } from '../config/version.ts';
import type { GatewayError } from '../core/errors.ts';
import type { Accounting } from '../money/accounting.ts';
import type { Catalog } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
import { setOverrunReporter } from '../upstream/connection/pool.ts';
import { callOperatorServer } from '../upstream/operator-call.ts';
import type { EndedRequest } from './ended-request.ts';
import { accountingFamilies, circuitFamily, type OfferCircuit, ProcessGauges } from './gauges.ts';
import { type Log, RefusedAccountLog, reason } from './log.ts';
import { gauge, type MetricSource, Metrics } from './prometheus.ts';
import { RecentTraffic } from './recent-calls.ts';
import { RequestLog } from './request-log.ts';
import { TraceExport } from './trace-export.ts';
import { type TracedCall, Tracer } from './tracer.ts';
import { ResponseCounts, Traffic } from './traffic.ts';

/** How long a stop waits for a log that nobody reads any more. */
const logFlushMs = 1_000;
/** Collectors answer at once; one that does not is as good as away. */
const collectorMs = 5_000;

const overrunReason =
  'It sent something behind the end of an answer, which could be taken for the next one: for ten ' +
  'minutes each call to it opens a connection of its own.';

/** Metrics, log lines and traces as one: what the other parts tell about themselves. */
export class Telemetry {
  readonly answers = new ResponseCounts();
  readonly metrics: Metrics;
  readonly #sources: MetricSource[];
  readonly #process = new ProcessGauges();
  readonly #traffic = new Traffic((alias) => this.#catalog?.model(alias) !== undefined);
  readonly recent = new RecentTraffic(() => this.#traffic.calls());
  readonly #refusedAccounts: RefusedAccountLog;
  readonly #requestLines: RequestLog | undefined;
  readonly #export: TraceExport | undefined;
  readonly #tracer: Tracer | undefined;
  readonly #log: Log;
  #catalog: Catalog | undefined;

  constructor(
    { logs, tracing }: Pick<Config, 'logs' | 'tracing'>,
    log: Log,
    processId: string,
    worker: number | null,
  ) {
    this.#log = log;
    setOverrunReporter((server) => log.warn('answer_overrun', { server, reason: overrunReason }));
    this.#refusedAccounts = new RefusedAccountLog(log);
    this.#requestLines = logs.requests ? new RequestLog((lines) => log.write(lines)) : undefined;
    this.#export = tracing ? createExport(tracing, log, processId) : undefined;
    this.#tracer = this.#export && new Tracer((spans) => this.#export?.add(spans));
    this.#sources = [
      () => this.#traffic.families(),
      () => this.answers.families(),
      () => this.#requestLines?.families() ?? [],
      () => this.#export?.families() ?? [],
      () => this.#process.families(),
    ];
    // Workers share a port, so each look at the metrics may meet another worker.
    this.metrics = new Metrics(this.#sources, worker === null ? {} : { worker: String(worker) });
  }

  /** More parts that metrics are read from when somebody asks. */
  addMetricSources(accounting: Accounting, health: Health, openRequests: () => number): void {
    this.#sources.push(
      () => accountingFamilies(accounting.state()),
      () => [circuitFamily(this.#catalog ? circuitsOf(this.#catalog, health) : [])],
      () => [gauge('tollgate_open_requests', 'HTTP requests being answered.', openRequests())],
    );
  }

  /** The catalogue whose models may be named in labels from now on. */
  useCatalog(catalog: Catalog): void {
    this.#catalog = catalog;
  }

  /** Called when web searches begin to fail, with the reason, or succeed again, with null. */
  searchStateChanged(fault: string | null): void {
    if (fault === null) this.#log.info('search_works_again');
    else this.#log.warn('search_failed', { reason: fault });
  }

  requestStarted(call: TracedCall): void {
    this.#tracer?.begun(call);
  }

  /** Returns the `traceparent` of the attempt, when there is a trace. */
  attemptStarted(call: TracedCall): string | undefined {
    return this.#tracer?.attempting(call);
  }

  /** A failure in here is counted, and never disturbs the request. */
  requestEnded(request: EndedRequest): void {
    try {
      this.#traffic.ended(request);
      this.#refusedAccounts.ended(request);
      this.#requestLines?.ended(request);
      this.#tracer?.ended(request);
    } catch {
      this.metrics.countFailure();
    }
  }

  /** Logs a fault of our own in an answer that had begun; the server logs those before that. */
  reportLateError(requestId: string, error: GatewayError): void {
    const { symbol, cause } = error;
    if (symbol !== 'internal_error') return;
    const why = reason(cause ?? error);
    this.#log.error('request_failed', { request_id: requestId, symbol, reason: why });
  }

  async stop(): Promise<void> {
    this.#process.stop();
    await Promise.race([this.#requestLines?.flush(), Bun.sleep(logFlushMs)]);
    await this.#export?.stop();
  }
}

function createExport({ url, headers, serviceName }: Tracing, log: Log, instanceId: string) {
  const revealed = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, value.reveal()]),
  );
  const post = {
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', ...revealed },
  } as const;
  return new TraceExport({
    resource: { serviceName, version, instanceId },
    async send(body) {
      const answer = await callOperatorServer({ ...post, body }, AbortSignal.timeout(collectorMs));
      await answer.body?.cancel();
      return answer.status;
    },
    log,
  });
}

/** Circuits of shared capacity only: tenants' own accounts are their affair, and without number. */
function circuitsOf(catalog: Catalog, health: Health): OfferCircuit[] {
  return catalog.callable().flatMap(({ id }) =>
    catalog.offers(id).map((offer) => ({
      provider: offer.provider.name,
      model: id,
      state: health.state(offer),
    })),
  );
}
