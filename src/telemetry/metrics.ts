import { counter, type Family, labels, writeFamilies } from './exposition.ts';

/** A part that can say how it is doing. Asked when somebody reads the metrics, and only then. */
export type MetricSource = () => readonly Family[];

/**
 * A page is good for ten times as long as it took to write, and no longer than a second: the route
 * is open to anybody, and must not cost more than a tenth of the process whoever reads it.
 */
const reuseFactor = 10;
const reuseMsMax = 1_000;

/** Everything that can be measured, as one page. */
export class Metrics {
  readonly #sources: readonly MetricSource[];
  readonly #common: string;
  #failures = 0;
  #page = { text: '', goodUntil: 0 };

  /** `common` labels stand on every sample. */
  constructor(sources: readonly MetricSource[], common: Readonly<Record<string, string>> = {}) {
    this.#sources = sources;
    this.#common = labels(common);
  }

  /** Something of telemetry itself went wrong; the request that met it goes on. */
  failed(): void {
    this.#failures += 1;
  }

  write(): string {
    const begin = performance.now();
    if (begin < this.#page.goodUntil) return this.#page.text;
    const text = this.#writeAnew();
    const end = performance.now();
    const reuseMs = Math.min((end - begin) * reuseFactor, reuseMsMax);
    this.#page = { text, goodUntil: end + reuseMs };
    return text;
  }

  #writeAnew(): string {
    const pages = this.#sources.map((source) => this.#ask(source));
    const help = 'Measurements that failed and were left out.';
    const failures = counter('tollgate_telemetry_failures_total', help, this.#failures);
    return [...pages, writeFamilies([failures], this.#common)].join('');
  }

  /** One broken source must not hide the others. */
  #ask(source: MetricSource): string {
    try {
      return writeFamilies(source(), this.#common);
    } catch {
      this.failed();
      return '';
    }
  }
}
