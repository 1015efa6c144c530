import type { Books } from '../books.ts';
import type { Config } from '../config/config.ts';
import type { Tracing } from '../config/tracing.ts';
import { version } from '../config/version.ts';
import type { GatewayError } from '../core/errors.ts';
import type { Catalogue } from '../route/catalogue.ts';
import type { Health } from '../route/health.ts';
import { Answers } from '../telemetry/answers.ts';
import type { EndedRequest } from '../telemetry/ended-request.ts';
import { gauge } from '../telemetry/exposition.ts';
import { booksFamilies, circuitFamily, type OfferCircuit } from '../telemetry/gauges.ts';
import { type Log, reason } from '../telemetry/log.ts';
import { type MetricSource, Metrics } from '../telemetry/metrics.ts';
import { ProcessGauges } from '../telemetry/process-gauges.ts';
import { RecentTraffic } from '../telemetry/recent-calls.ts';
import { RefusedAccounts } from '../telemetry/refused-accounts.ts';
import { RequestLines } from '../telemetry/request-lines.ts';
import { TraceExport } from '../telemetry/trace-export.ts';
import { type TracedCall, Tracer } from '../telemetry/tracer.ts';
import { Traffic } from '../telemetry/traffic.ts';
import { tellOverruns } from '../upstream/connection/connections.ts';
import { callOperatorServer } from '../upstream/operator-call.ts';

/** How long a stop waits for a log that nobody reads any more. */
const lastLinesMs = 1_000;
/** Collectors answer at once; one that does not is as good as away. */
const collectorMs = 5_000;

const overrun =
  'It sent something behind the end of an answer, which could be taken for the next one: for ten ' +
  'minutes each call to it opens a connection of its own.';

/** Metrics, log lines and traces as one: what the other parts tell about themselves. */
export class Telemetry {
  readonly answers = new Answers();
  readonly metrics: Metrics;
  readonly #sources: MetricSource[];
  readonly #process = new ProcessGauges();
  readonly #traffic = new Traffic((alias) => this.#catalogue?.model(alias) !== undefined);
  readonly recent = new RecentTraffic(() => this.#traffic.calls());
  readonly #refused: RefusedAccounts;
  readonly #lines: RequestLines | undefined;
  readonly #export: TraceExport | undefined;
  readonly #tracer: Tracer | undefined;
  readonly #log: Log;
  #catalogue: Catalogue | undefined;

  constructor(
    { logs, tracing }: Pick<Config, 'logs' | 'tracing'>,
    log: Log,
    processId: string,
    worker: number | null,
  ) {
    this.#log = log;
    tellOverruns((server) => log.warn('answer_overrun', { server, reason: overrun }));
    this.#refused = new RefusedAccounts(log);
    this.#lines = logs.requests ? new RequestLines((lines) => log.write(lines)) : undefined;
    this.#export = tracing ? makeExport(tracing, log, processId) : undefined;
    this.#tracer = this.#export && new Tracer((spans) => this.#export?.add(spans));
    this.#sources = [
      () => this.#traffic.families(),
      () => this.answers.families(),
      () => this.#lines?.families() ?? [],
      () => this.#export?.families() ?? [],
      () => this.#process.families(),
    ];
    // Workers share a port, so each look at the metrics may meet another worker.
    this.metrics = new Metrics(this.#sources, worker === null ? {} : { worker: String(worker) });
  }

  /** More parts that metrics are read from when somebody asks. */
  addSources(books: Books, health: Health, openRequests: () => number): void {
    this.#sources.push(
      () => booksFamilies(books.state()),
      () => [circuitFamily(this.#catalogue ? circuitsOf(this.#catalogue, health) : [])],
      () => [gauge('tollgate_open_requests', 'HTTP requests being answered.', openRequests())],
    );
  }

  /** The catalogue whose models may be named in labels from now on. */
  useCatalogue(catalogue: Catalogue): void {
    this.#catalogue = catalogue;
  }

  /** Called when web searches begin to fail, with the reason, or succeed again, with null. */
  searchChanged(fault: string | null): void {
    if (fault === null) this.#log.info('search_works_again');
    else this.#log.warn('search_failed', { reason: fault });
  }

  begun(call: TracedCall): void {
    this.#tracer?.begun(call);
  }

  /** Returns the `traceparent` of the attempt, when there is a trace. */
  attempting(call: TracedCall): string | undefined {
    return this.#tracer?.attempting(call);
  }

  /** A failure in here is counted, and never disturbs the request. */
  ended(request: EndedRequest): void {
    try {
      this.#traffic.ended(request);
      this.#refused.ended(request);
      this.#lines?.ended(request);
      this.#tracer?.ended(request);
    } catch {
      this.metrics.failed();
    }
  }

  /** Logs a fault of our own in an answer that had begun; the server logs those before that. */
  tellLate(requestId: string, error: GatewayError): void {
    const { symbol, cause } = error;
    if (symbol !== 'internal_error') return;
    const why = reason(cause ?? error);
    this.#log.error('request_failed', { request_id: requestId, symbol, reason: why });
  }

  async stop(): Promise<void> {
    this.#process.stop();
    await Promise.race([this.#lines?.flush(), Bun.sleep(lastLinesMs)]);
    await this.#export?.stop();
  }
}

function makeExport({ url, headers, serviceName }: Tracing, log: Log, instanceId: string) {
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
function circuitsOf(catalogue: Catalogue, health: Health): OfferCircuit[] {
  return catalogue.live().flatMap(({ id }) =>
    catalogue.offers(id).map((offer) => ({
      provider: offer.provider.name,
      model: id,
      state: health.state(offer),
    })),
  );
}
