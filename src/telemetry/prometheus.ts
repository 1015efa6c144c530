/** The content type of Prometheus' text format. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';

export interface Sample {
  /** Written by `labels`, once per series, because a histogram has dozens of samples. */
  readonly labels?: string;
  readonly value: number;
  /** `_bucket`, `_sum`, or `_count` of a histogram. */
  readonly suffix?: string;
}

/** All samples of one metric. */
export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly samples: readonly Sample[];
}

export function gauge(name: string, help: string, value: number): Family {
  return { name, help, type: 'gauge', samples: [{ value }] };
}

export function counter(name: string, help: string, value: number): Family {
  return { name, help, type: 'counter', samples: [{ value }] };
}

/** Writes families. The `common` labels are added to every sample. */
export function writeFamilies(families: readonly Family[], common = ''): string {
  return families.map((family) => writeFamily(family, common)).join('');
}

function writeFamily({ name, help, type, samples }: Family, common: string): string {
  const escaped = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  let text = `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n`;
  for (const { labels = '', value, suffix = '' } of samples) {
    const all = labels && common ? `${common},${labels}` : labels || common;
    text += `${name}${suffix}${all && `{${all}}`} ${value}\n`;
  }
  return text;
}

/** Writes labels as they appear between the braces of a sample. */
export function labels(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',');
}

function escapeLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

/** Counts observations by size. `bounds` are the inclusive maximums of the buckets, ascending. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at++;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += value;
  }

  samples(labels: string): Sample[] {
    let count = 0;
    const buckets = Array.from(this.#counts, (inBucket, index): Sample => {
      count += inBucket;
      const bound = this.#bounds[index];
      const le = bound === undefined ? '+Inf' : String(bound);
      return { suffix: '_bucket', labels: `${labels},le="${le}"`, value: count };
    });
    return [
      ...buckets,
      { suffix: '_sum', labels, value: this.#sum },
      { suffix: '_count', labels, value: count },
    ];
  }
}

/** Seconds of a request, from OpenTelemetry's conventions for generative AI. */
export const durationBounds = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84,
  327.68,
] as const;

/** Seconds to the first output. Up to 2 minutes, because reasoning models may take a minute. */
export const firstTokenBounds = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120,
] as const;

/** Tokens of one request. */
export const tokenBounds = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304,
] as const;

/** Returns current metrics. Called at each scrape. */
export type MetricSource = () => readonly Family[];

/**
 * A page is reused for 10 times as long as it took to write, at most 1 s. The route needs no key,
 * so scrapes must not use more than a tenth of the process's time.
 */
const reuseFactor = 10;
const reuseMsMax = 1_000;

/** Writes all metrics as one page. */
export class Metrics {
  readonly #sources: readonly MetricSource[];
  readonly #common: string;
  #failures = 0;
  #page = { text: '', goodUntil: 0 };

  /** The `common` labels are added to every sample. */
  constructor(sources: readonly MetricSource[], common: Readonly<Record<string, string>> = {}) {
    this.#sources = sources;
    this.#common = labels(common);
  }

  /** Counts a failure of telemetry itself, which must not fail the request. */
  countFailure(): void {
    this.#failures += 1;
  }

  write(): string {
    const begin = performance.now();
    if (begin < this.#page.goodUntil) return this.#page.text;
    const text = this.#render();
    const end = performance.now();
    const reuseMs = Math.min((end - begin) * reuseFactor, reuseMsMax);
    this.#page = { text, goodUntil: end + reuseMs };
    return text;
  }

  #render(): string {
    const pages = this.#sources.map((source) => this.#readSource(source));
    const help = 'Metric sources that failed and were omitted.';
    const failures = counter('tollgate_telemetry_failures_total', help, this.#failures);
    return [...pages, writeFamilies([failures], this.#common)].join('');
  }

  /** Returns '' for a source that throws, so that the others are still reported. */
  #readSource(source: MetricSource): string {
    try {
      return writeFamilies(source(), this.#common);
    } catch {
      this.countFailure();
      return '';
    }
  }
}
