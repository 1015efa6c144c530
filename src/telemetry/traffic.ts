import { metricSeriesMax } from '../core/bounds.ts';
import { promptTokens, uncachedTokens, writtenTokens } from '../core/usage.ts';
import { type EndedRequest, firstWordsMs } from './ended-request.ts';
import type { Family } from './exposition.ts';
import { durationBounds, firstTokenBounds, Histogram, tokenBounds } from './histogram.ts';
import type { CallCounts } from './recent-calls.ts';
import { trafficFamilies } from './traffic-families.ts';

/** What requests of one kind came to. */
export class Series {
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
    const word = request.error ?? request.status;
    const outcome = `${request.trafficMode} ${word}`;
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    this.#durationsOf(word === 'success' ? '' : word).observe(request.durationMs / 1000);
    const firstMs = request.streamed ? firstWordsMs(request) : null;
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

export interface AttemptCount {
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
