import { metricSeriesMax } from '../core/bounds.ts';
import { promptTokens, uncachedTokens, writtenTokens } from '../core/usage.ts';
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

/** HTTP answers by route and status: refusals that never became a request are seen here only. */
export class ResponseCounts {
  /** `METHOD /path` as in the route table, never a client's words → status → count. */
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
    const help = 'HTTP answers begun, by route and status.';
    return [{ name: 'tollgate_http_answers_total', help, type: 'counter', samples }];
  }
}

/** What requests of one kind came to. */
class Series {
  readonly operation: string;
  readonly model: string;
  readonly provider: string;
  /** Traffic mode and outcome (`success` or the symbol of the error), a space between → count. */
  readonly outcomes = new Map<string, number>();
  /** By the symbol of the error that ended them; '' for those that succeeded. */
  readonly durations = new Map<string, Histogram>();
  readonly firstToken = new Histogram(firstTokenBounds);
  readonly promptTokens = new Histogram(tokenBounds);
  readonly outputTokens = new Histogram(tokenBounds);
  readonly tokens = { input: 0, cache_read: 0, cache_write: 0, output: 0, reasoning: 0 };
  readonly credits = { model: 0, byok_platform: 0, managed_tool: 0, agent_runtime: 0 };
  readonly cache = { hit: 0, miss: 0 };
  estimated = 0;
  /** Whether anybody ever answered one of these requests: only then is there more than a count. */
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
    credits.model += charges.modelCharge;
    credits.byok_platform += charges.byokPlatformFee;
    credits.managed_tool += charges.managedToolFee;
    credits.agent_runtime += charges.agentRuntimeFee;
    // Refusals and remembered answers use no tokens: they would fill the lowest buckets.
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
 * Counts requests as they end. One call per request, a few additions: what Prometheus reads is
 * put together when it asks. Labels are names of the catalogue, never a client's words.
 */
export class Traffic {
  readonly #series = new Map<string, Series>();
  readonly #attempts = new Map<string, AttemptCount>();
  readonly #isModel: (alias: string) => boolean;

  constructor(isModel: (alias: string) => boolean) {
    this.#isModel = isModel;
  }

  ended(request: EndedRequest): void {
    const { operation, requestedModel } = request;
    const model = request.model ?? (this.#isModel(requestedModel) ? requestedModel : 'unknown');
    this.#seriesOf(operation, model, request.provider ?? 'none').add(request);
    for (const attempt of request.attempts) {
      this.#attemptOf(attempt.provider, attempt.model, attempt.outcome).count += 1;
    }
  }

  families(): Family[] {
    return trafficFamilies([...this.#series.values()], [...this.#attempts.values()]);
  }

  /** What came of calls to providers. An answer that its provider broke off is `cut`. */
  calls(): CallCounts {
    const counts = new Map<string, number>();
    const add = (provider: string, outcome: string, count: number) => {
      const name = `${provider}\n${outcome}`;
      counts.set(name, (counts.get(name) ?? 0) + count);
    };
    for (const { provider, outcome, count } of this.#attempts.values()) {
      add(provider, outcome, count);
    }
    for (const { provider, outcomes } of this.#series.values()) {
      const cut = [...outcomes].filter(([outcome]) => outcome.endsWith(' upstream_error'));
      if (provider === 'none' || cut.length === 0) continue;
      const count = cut.reduce((sum, [, times]) => sum + times, 0);
      add(provider, 'cut', count);
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

/** The names under which Prometheus finds what was counted. */
function trafficFamilies(series: readonly Series[], attempts: readonly AttemptCount[]): Family[] {
  const answered = series.filter((one) => one.answered);
  return [...durations(series, answered), ...counts(series, answered), attemptsFamily(attempts)];
}

/** As OpenTelemetry's conventions for generative AI are spelt in Prometheus. */
function durations(series: readonly Series[], answered: readonly Series[]): Family[] {
  const tokens = (type: string, pick: (one: Series) => Histogram) =>
    answered.flatMap((one) =>
      pick(one).samples(`${conventionLabels(one)},gen_ai_token_type="${type}"`),
    );
  return [
    {
      name: 'gen_ai_server_request_duration_seconds',
      help: 'From the arrival of a request to the end of its answer.',
      type: 'histogram',
      samples: series.flatMap(durationsOf),
    },
    {
      name: 'gen_ai_server_time_to_first_token_seconds',
      help: 'Streamed answers: from the first attempt to the first words, failed ones included.',
      type: 'histogram',
      samples: answered.flatMap((one) => one.firstToken.samples(conventionLabels(one))),
    },
    {
      name: 'gen_ai_client_token_usage',
      help: 'Tokens of one answered request: all input, cached or not, and all output.',
      type: 'histogram',
      samples: [
        ...tokens('input', ({ promptTokens }) => promptTokens),
        ...tokens('output', ({ outputTokens }) => outputTokens),
      ],
    },
  ];
}

/** Only failed requests have an error's type, as the conventions want it. */
function durationsOf(series: Series): Sample[] {
  const convention = conventionLabels(series);
  return [...series.durations].flatMap(([errorType, durations]) =>
    durations.samples(errorType === '' ? convention : `${convention},error_type="${errorType}"`),
  );
}

function counts(series: readonly Series[], answered: readonly Series[]): Family[] {
  const counter = (name: string, help: string, pick: (one: Series) => Sample[]): Family => ({
    name,
    help,
    type: 'counter',
    samples: answered.flatMap(pick),
  });
  return [
    {
      name: 'tollgate_requests_total',
      help: 'Requests to models that have ended.',
      type: 'counter',
      samples: series.flatMap(outcomesOf),
    },
    counter('tollgate_tokens_total', 'Tokens used. Reasoning is a part of output.', (one) =>
      samplesOf(one, 'class', one.tokens),
    ),
    counter('tollgate_credits_charged_total', 'Credits charged, by fee line.', (one) =>
      samplesOf(one, 'fee', one.credits),
    ),
    counter('tollgate_cache_answers_total', 'Answers given from the cache, and those not.', (one) =>
      samplesOf(one, 'result', one.cache),
    ),
    counter(
      'tollgate_estimated_usage_total',
      'Answers whose provider reported no usage, so that it was estimated.',
      (one) => [{ labels: seriesLabels(one), value: one.estimated }],
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
    help: 'Calls to providers, by what came of them.',
    type: 'counter',
    samples: attempts.map(({ count, ...names }) => ({ labels: labels(names), value: count })),
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
