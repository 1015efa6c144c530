import type { Sample } from './exposition.ts';

/** Counts observations by size. Bounds are the largest values of their buckets, ascending. */
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
    const buckets = Array.from(this.#counts, (inBucket, at): Sample => {
      count += inBucket;
      const bound = this.#bounds[at];
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

/** Of the OpenTelemetry conventions for generative AI: seconds of a whole request. */
export const durationBounds = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84,
  327.68,
] as const;

/** Seconds to the first words; up to two minutes, since reasoning models take one. */
export const firstTokenBounds = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120,
] as const;

/** Tokens of one request. */
export const tokenBounds = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304,
] as const;
