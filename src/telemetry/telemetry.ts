import type { Config } from '../config/config.ts';
import type { Tracing } from '../config/environment.ts';
import { version } from '../config/version.ts';
import { callConfiguredServer } from '../core/call-configured-server.ts';
import type { GatewayError } from '../core/errors.ts';
import type { Accounting } from '../money/accounting.ts';
import type { Catalog } from '../route/catalog.ts';
import type { Health } from '../route/health.ts';
import type { KeyStatus, ProviderKeys } from '../route/provider-keys.ts';
import type { EndedRequest } from './ended-request.ts';
import {
  accountingFamilies,
  type ConfigVersions,
  circuitFamily,
  configFamilies,
  type OfferCircuit,
  ProcessGauges,
  providerKeyFamily,
} from './gauges.ts';
import { type Log, reason } from './log.ts';
import { gauge, type MetricSource, Metrics } from './prometheus.ts';
import { RecentTraffic } from './recent-calls.ts';
import { RequestLog } from './request-log.ts';
import { TraceExport } from './trace-export.ts';
import { type TracedCall, Tracer } from './tracer.ts';
import { ResponseCounts, Traffic } from './traffic.ts';

/** How long a shutdown waits for the request log if nothing reads it. */
const logFlushMs = 1_000;
/** A collector that takes longer than this to respond counts as unreachable. */
const collectorMs = 5_000;

const dataAfterAnswerReason =
  'The server sent data after the end of a response, which could be mistaken for the next ' +
  'response. For 10 minutes, each call to it opens a new connection.';

/** Collects metrics, log lines, and traces. */
export class Telemetry {
  readonly responseCounts = new ResponseCounts();
  readonly metrics: Metrics;
  readonly #sources: MetricSource[];
  readonly #process = new ProcessGauges();
  readonly #traffic = new Traffic((alias) => this.#catalog?.model(alias) !== undefined);
  readonly recent = new RecentTraffic(() => this.#traffic.calls());
  readonly #rejectedAccounts: RejectedAccountLog;
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
    this.#rejectedAccounts = new RejectedAccountLog(log);
    this.#requestLines = logs.requests ? new RequestLog((lines) => log.write(lines)) : undefined;
    this.#export = tracing ? createExport(tracing, log, processId) : undefined;
    this.#tracer = this.#export && new Tracer((spans) => this.#export?.add(spans));
    this.#sources = [
      () => this.#traffic.families(),
      () => this.responseCounts.families(),
      () => this.#requestLines?.families() ?? [],
      () => this.#export?.families() ?? [],
      () => this.#process.families(),
    ];
    // Workers share a port, so each scrape may reach another worker.
    this.metrics = new Metrics(this.#sources, worker === null ? {} : { worker: String(worker) });
  }

  /** Adds sources that are read at each scrape. */
  addMetricSources(
    accounting: Accounting,
    { health, providerKeys }: { readonly health: Health; readonly providerKeys: ProviderKeys },
    openRequests: () => number,
    configVersions: () => ConfigVersions,
  ): void {
    this.#sources.push(
      () => configFamilies(configVersions()),
      () => accountingFamilies(accounting.state()),
      () => [circuitFamily(this.#catalog ? circuitsOf(this.#catalog, health) : [])],
      () => [providerKeyFamily(this.#catalog ? keyCounts(this.#catalog, providerKeys) : [])],
      () => [gauge('tollgate_open_requests', 'HTTP requests being processed.', openRequests())],
    );
  }

  /** Sets the catalog whose models may appear in labels. */
  useCatalog(catalog: Catalog): void {
    this.#catalog = catalog;
  }

  /** Called when a provider sends more than the response it announced. */
  dataAfterAnswer(server: string): void {
    this.#log.warn('data_after_answer', { server, reason: dataAfterAnswerReason });
  }

  /** Called when a request that this provider didn't read is sent again. */
  requestReplayed(provider: string): void {
    this.#traffic.replayed(provider);
  }

  keySetAside(
    provider: string,
    key: string,
    { status, message }: { readonly status: number | null; readonly message: string },
  ): void {
    this.#log.warn('provider_key_set_aside', { provider, key, status, reason: message });
  }

  keyRestored(provider: string, key: string): void {
    this.#log.info('provider_key_restored', { provider, key });
  }

  /** Called with a reason when web searches begin to fail, and with null when they recover. */
  searchStateChanged(fault: string | null): void {
    if (fault === null) this.#log.info('search_recovered');
    else this.#log.warn('search_failed', { reason: fault });
  }

  requestStarted(call: TracedCall): void {
    this.#tracer?.requestStarted(call);
  }

  /** Returns the `traceparent` header of the attempt, if there is a trace. */
  attemptStarted(call: TracedCall): string | undefined {
    return this.#tracer?.attemptStarted(call);
  }

  /** Never throws. Failures are counted. */
  requestEnded(request: EndedRequest): void {
    try {
      this.#traffic.ended(request);
      this.#rejectedAccounts.ended(request);
      this.#requestLines?.ended(request);
      this.#tracer?.requestEnded(request);
    } catch {
      this.metrics.countFailure();
    }
  }

  /**
   * Logs an internal error that occurs after an answer has begun. The server logs earlier errors.
   */
  reportLateError(requestId: string, error: GatewayError): void {
    const { symbol, cause } = error;
    if (symbol !== 'internal_error') return;
    const fields = { request_id: requestId, symbol, reason: reason(cause ?? error) };
    this.#log.error('request_failed', fields);
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
      const response = await callConfiguredServer(
        { ...post, body },
        AbortSignal.timeout(collectorMs),
      );
      await response.body?.cancel();
      return response.status;
    },
    log,
  });
}

/**
 * Returns only the circuits of shared capacity. There are too many tenants' accounts for labels.
 */
function circuitsOf(catalog: Catalog, health: Health): OfferCircuit[] {
  return catalog.callable().flatMap(({ id }) =>
    catalog.offers(id).map((offer) => ({
      provider: offer.provider.name,
      model: id,
      state: health.state(offer),
    })),
  );
}

const keyStates = ['available', 'waiting', 'set_aside', 'disabled'] as const;

/** Counts the keys of each provider with several keys, by state. */
function keyCounts(catalog: Catalog, providerKeys: ProviderKeys) {
  const offers = catalog.callable().flatMap(({ id }) => catalog.offers(id));
  const providers = new Set(offers.map(({ provider }) => provider));
  return [...providers].flatMap((provider) => {
    const statuses = providerKeys.statusesOf(provider);
    const countOf = (state: KeyStatus['state']) =>
      statuses.filter((status) => status.state === state).length;
    if (statuses.length === 0) return [];
    return keyStates.map((state) => ({ provider: provider.name, state, keys: countOf(state) }));
  });
}

/**
 * Write at most one line per provider in this time, because every request to it fails the same way.
 */
const accountReportMs = 60_000;

/** Logs providers that reject the operator's account, which clients can't fix. */
class RejectedAccountLog {
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
    if (last !== undefined && now - last < accountReportMs) return;
    this.#reportedAt.set(provider, now);
    this.#log.warn('provider_account_rejected', { provider, reason });
  }
}
