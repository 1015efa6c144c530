import { metricSeriesMax } from '../core/bounds.ts';
import { promptTokens, uncachedTokens, writtenTokens } from '../core/usage.ts';
import { feeEntries, mapFees } from '../money/price/fee-kinds.ts';
import { type EndedRequest, firstTokenMs } from './ended-request.ts';
import {
  durationBounds,
  type Family,
  firstTokenBounds,
  Histogram,
  labels,
  type Sample,
  tokenBounds,
} from './prometheus.ts';
import type { CallCounts } from './recent-calls.ts';

/** Counts HTTP responses by route and status, including rejections before a model call. */
export class ResponseCounts {
  /** Counts by `METHOD /path` of the route table (never a client's path), then by status. */
  readonly #counts = new Map<string, Map<number, number>>();

  count(route: string, status: number): void {
    let statuses = this.#counts.get(route);
    if (!statuses) {
      statuses = new Map();
      this.#counts.set(route, statuses);
    }
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }

  families(): Family[] {
    const samples = [...this.#counts].flatMap(([route, statuses]) => {
      const [method = '', path = ''] = route.split(' ');
      return [...statuses].map(([status, value]) => ({
        labels: labels({ method, route: path, status: String(status) }),
        value,
      }));
    });
    const help = 'HTTP responses begun, by route and status.';
    return [{ name: 'tollgate_http_responses_total', help, type: 'counter', samples }];
  }
}

/** Totals of the requests with the same labels. */
class Series {
  readonly operation: string;
  readonly model: string;
  readonly provider: string;
  /** Counts by traffic mode and outcome (`success` or an error symbol), joined by a space. */
  readonly outcomes = new Map<string, number>();
  /** Durations by error symbol, or '' for successful requests. */
  readonly durations = new Map<string, Histogram>();
  readonly firstToken = new Histogram(firstTokenBounds);
  readonly promptTokens = new Histogram(tokenBounds);
  readonly outputTokens = new Histogram(tokenBounds);
  readonly tokens = { input: 0, cache_read: 0, cache_write: 0, output: 0, reasoning: 0 };
  /** By the label of the fee kind. */
  readonly credits = mapFees(
    ({ metric }) => metric,
    () => 0,
  );
  readonly cache = { hit: 0, miss: 0 };
  estimated = 0;
  /**
   * True once any of these requests was answered. Otherwise, only outcomes and durations are
   * written.
   */
  answered = false;

  constructor(operation: string, model: string, provider: string) {
    this.operation = operation;
    this.model = model;
    this.provider = provider;
  }

  add(request: EndedRequest): void {
    const { usage, charges } = request;
    const { tokens, credits } = this;
    const result = request.error ?? request.status;
    const outcome = `${request.trafficMode} ${result}`;
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    this.#durationsOf(result === 'success' ? '' : result).observe(request.durationMs / 1000);
    const firstMs = request.streamed ? firstTokenMs(request) : null;
    if (firstMs !== null) this.firstToken.observe(firstMs / 1000);
    for (const [kind, { metric }] of feeEntries) credits[metric] += charges[kind];
    // Rejections and cached answers use no tokens and would fill the lowest buckets.
    if (request.model === null) return;
    this.answered = true;
    this.cache[request.cacheHit ? 'hit' : 'miss'] += 1;
    if (request.cacheHit) return;
    this.promptTokens.observe(promptTokens(usage));
    this.outputTokens.observe(usage.outputTokens);
    tokens.input += uncachedTokens(usage);
    tokens.cache_read += usage.cacheReadTokens;
    tokens.cache_write += writtenTokens(usage);
    tokens.output += usage.outputTokens;
    tokens.reasoning += usage.reasoningTokens;
    if (request.usageEstimated) this.estimated += 1;
  }

  #durationsOf(errorType: string): Histogram {
    const known = this.durations.get(errorType);
    if (known) return known;
    const fresh = new Histogram(durationBounds);
    this.durations.set(errorType, fresh);
    return fresh;
  }
}

interface AttemptCount {
  readonly provider: string;
  readonly model: string;
  readonly outcome: string;
  count: number;
}

/**
 * Counts requests as they end. A request costs a few additions; the text for Prometheus is written
 * at each scrape. Labels are names from the catalog, never a client's input.
 */
export class Traffic {
  readonly #series = new Map<string, Series>();
  readonly #attempts = new Map<string, AttemptCount>();
  /** Attempts for which the provider rejected the tenant's own key, by provider. */
  readonly #tenantRejections = new Map<string, number>();
  /** Requests that were sent again, by provider. */
  readonly #replays = new Map<string, number>();
  readonly #isModel: (alias: string) => boolean;

  constructor(isModel: (alias: string) => boolean) {
    this.#isModel = isModel;
  }

  ended(request: EndedRequest): void {
    const { operation, requestedModel } = request;
    const model = request.model ?? (this.#isModel(requestedModel) ? requestedModel : 'unknown');
    this.#seriesOf(operation, model, request.provider ?? 'none').add(request);
    for (const attempt of request.attempts) {
      const counted = this.#attemptOf(attempt.provider, attempt.model, attempt.outcome);
      counted.count += 1;
      if (attempt.own_account && attempt.outcome === 'credential') {
        const before = this.#tenantRejections.get(counted.provider) ?? 0;
        this.#tenantRejections.set(counted.provider, before + 1);
      }
    }
  }

  replayed(provider: string): void {
    this.#replays.set(provider, (this.#replays.get(provider) ?? 0) + 1);
  }

  families(): Family[] {
    const families = trafficFamilies([...this.#series.values()], [...this.#attempts.values()]);
    return [...families, replaysFamily(this.#replays)];
  }

  /**
   * Returns the outcomes of calls to providers. An answer that ended early counts as `interrupted`,
   * and a tenant's own key that was rejected as `tenant_credential`.
   */
  calls(): CallCounts {
    const counts = new Map<string, number>();
    const add = (provider: string, outcome: string, count: number) => {
      const name = `${provider}\n${outcome}`;
      counts.set(name, (counts.get(name) ?? 0) + count);
    };
    for (const { provider, outcome, count } of this.#attempts.values()) {
      add(provider, outcome, count);
    }
    for (const [provider, count] of this.#tenantRejections) {
      add(provider, 'tenant_credential', count);
      add(provider, 'credential', -count);
    }
    for (const { provider, outcomes } of this.#series.values()) {
      const interrupted = [...outcomes].filter(([name]) => name.endsWith(' upstream_error'));
      if (provider === 'none' || interrupted.length === 0) continue;
      const count = interrupted.reduce((sum, [, times]) => sum + times, 0);
      add(provider, 'interrupted', count);
      add(provider, 'answered', -count);
    }
    return counts;
  }

  #seriesOf(operation: string, model: string, provider: string): Series {
    const key = `${operation}\n${model}\n${provider}`;
    const known = this.#series.get(key);
    if (known) return known;
    if (this.#series.size >= metricSeriesMax && model !== 'other') {
      return this.#seriesOf(operation, 'other', 'other');
    }
    const fresh = new Series(operation, model, provider);
    this.#series.set(key, fresh);
    return fresh;
  }

  #attemptOf(provider: string, model: string, outcome: string): AttemptCount {
    const key = `${provider}\n${model}\n${outcome}`;
    const known = this.#attempts.get(key);
    if (known) return known;
    if (this.#attempts.size >= metricSeriesMax && model !== 'other') {
      return this.#attemptOf('other', 'other', outcome);
    }
    const fresh = { provider, model, outcome, count: 0 };
    this.#attempts.set(key, fresh);
    return fresh;
  }
}

function trafficFamilies(series: readonly Series[], attempts: readonly AttemptCount[]): Family[] {
  const answered = series.filter((entry) => entry.answered);
  return [...durations(series, answered), ...counts(series, answered), attemptsFamily(attempts)];
}

/** The names follow OpenTelemetry's conventions for generative AI, in Prometheus style. */
function durations(series: readonly Series[], answered: readonly Series[]): Family[] {
  const tokens = (type: string, pick: (entry: Series) => Histogram) =>
    answered.flatMap((entry) =>
      pick(entry).samples(`${conventionLabels(entry)},gen_ai_token_type="${type}"`),
    );
  return [
    {
      name: 'gen_ai_server_request_duration_seconds',
      help: 'Time from the arrival of a request to the end of its answer.',
      type: 'histogram',
      samples: series.flatMap(durationsOf),
    },
    {
      name: 'gen_ai_server_time_to_first_token_seconds',
      help: 'Time to the first output of streamed answers, failed attempts included.',
      type: 'histogram',
      samples: answered.flatMap((entry) => entry.firstToken.samples(conventionLabels(entry))),
    },
    {
      name: 'gen_ai_client_token_usage',
      help: 'Tokens per answered request. Input includes cached tokens.',
      type: 'histogram',
      samples: [
        ...tokens('input', ({ promptTokens }) => promptTokens),
        ...tokens('output', ({ outputTokens }) => outputTokens),
      ],
    },
  ];
}

/** As in the conventions, only failed requests have `error_type`. */
function durationsOf(series: Series): Sample[] {
  const convention = conventionLabels(series);
  return [...series.durations].flatMap(([errorType, durations]) =>
    durations.samples(errorType === '' ? convention : `${convention},error_type="${errorType}"`),
  );
}

function counts(series: readonly Series[], answered: readonly Series[]): Family[] {
  const counter = (name: string, help: string, pick: (entry: Series) => Sample[]): Family => ({
    name,
    help,
    type: 'counter',
    samples: answered.flatMap(pick),
  });
  return [
    {
      name: 'tollgate_requests_total',
      help: 'Model requests that have ended.',
      type: 'counter',
      samples: series.flatMap(outcomesOf),
    },
    counter('tollgate_tokens_total', 'Tokens used. Reasoning is part of output.', (entry) =>
      samplesOf(entry, 'class', entry.tokens),
    ),
    counter('tollgate_credits_charged_total', 'Credits charged, by fee.', (entry) =>
      samplesOf(entry, 'fee', entry.credits),
    ),
    counter(
      'tollgate_cache_requests_total',
      'Answered requests, by whether the answer came from the cache.',
      (entry) => samplesOf(entry, 'result', entry.cache),
    ),
    counter(
      'tollgate_estimated_usage_total',
      'Answers whose usage was estimated because the provider reported none.',
      (entry) => [{ labels: seriesLabels(entry), value: entry.estimated }],
    ),
  ];
}

function outcomesOf(series: Series): Sample[] {
  const base = seriesLabels(series);
  return [...series.outcomes].map(([key, value]) => {
    const [traffic_mode = '', outcome = ''] = key.split(' ');
    return { labels: `${base},${labels({ traffic_mode, outcome })}`, value };
  });
}

function attemptsFamily(attempts: readonly AttemptCount[]): Family {
  return {
    name: 'tollgate_upstream_attempts_total',
    help: 'Calls to providers, by outcome.',
    type: 'counter',
    samples: attempts.map(({ count, ...names }) => ({ labels: labels(names), value: count })),
  };
}

function replaysFamily(replays: ReadonlyMap<string, number>): Family {
  return {
    name: 'tollgate_upstream_replays_total',
    help: 'Requests that a provider did not read and that were sent again.',
    type: 'counter',
    samples: [...replays].map(([provider, value]) => ({ labels: labels({ provider }), value })),
  };
}

function samplesOf(
  series: Series,
  label: string,
  counts: Readonly<Record<string, number>>,
): Sample[] {
  const base = seriesLabels(series);
  return Object.entries(counts).map(([name, value]) => ({
    labels: `${base},${label}="${name}"`,
    value,
  }));
}

function seriesLabels({ operation, model, provider }: Series): string {
  return labels({ operation, model, provider });
}

function conventionLabels({ operation, model, provider }: Series): string {
  return labels({
    gen_ai_operation_name: operation,
    gen_ai_request_model: model,
    gen_ai_provider_name: provider,
  });
}
