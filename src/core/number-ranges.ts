import { strict as assert } from 'node:assert';

/** A set of numbers from 0 up, stored as ranges, because most of its numbers are consecutive. */
export class NumberRanges {
  /** The first and last number of each range, in ascending order. No two ranges touch. */
  readonly #ranges: [first: number, last: number][] = [];
  #size = 0;

  /** Parses what `toString` returns, such as `0-41,43`. */
  static parse(text: string): NumberRanges {
    const numbers = new NumberRanges();
    for (const range of text === '' ? [] : text.split(',')) {
      const [first = Number.NaN, last = first] = range.split('-').map(Number);
      assert(Number.isSafeInteger(first) && last >= first, `${range} isn't a range.`);
      numbers.#ranges.push([first, last]);
      numbers.#size += last - first + 1;
    }
    return numbers;
  }

  get size(): number {
    return this.#size;
  }

  has(number: number): boolean {
    const range = this.#ranges[this.#indexFrom(number)];
    return range !== undefined && range[0] <= number;
  }

  add(number: number): void {
    const index = this.#indexFrom(number);
    const [before, after] = [this.#ranges[index - 1], this.#ranges[index]];
    if (after && after[0] <= number) return;
    this.#size += 1;
    const extendsBefore = before?.[1] === number - 1;
    const extendsAfter = after?.[0] === number + 1;
    if (extendsBefore && extendsAfter) {
      before[1] = after[1];
      this.#ranges.splice(index, 1);
    } else if (extendsBefore) before[1] = number;
    else if (extendsAfter) after[0] = number;
    else this.#ranges.splice(index, 0, [number, number]);
  }

  toString(): string {
    return this.#ranges
      .map(([first, last]) => (first === last ? String(first) : `${first}-${last}`))
      .join(',');
  }

  /** Returns the index of the first range that ends at this number or later. */
  #indexFrom(number: number): number {
    let [low, high] = [0, this.#ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ranges[middle]?.[1] ?? number) < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
