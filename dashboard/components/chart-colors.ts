/**
 * Assigns colors to the series of charts. A color belongs to a name: it stays the same in this tab
 * when ranges, metrics, or ranks change, and two series of a chart never have the same one.
 */

/** The number of colors `--chart-0`, `--chart-1`, … for named series, as many as a chart shows. */
const namedColors = 10;

/** Gray, for the series that combines all names without their own series. */
export const othersColor = 'var(--chart-others)';
/** The text color, for the series of all requests. */
export const totalColor = 'var(--chart-total)';
/** For a chart with a single series. */
export const onlyColor = colorAt(0);

function colorAt(index: number): string {
  return `var(--chart-${index})`;
}

/** Remembers the color index of each name that was shown. */
export class ColorAssignments {
  readonly #indexes = new Map<string, number>();

  /** Returns the color of each name. The order of the names has no effect. */
  colorsOf(names: readonly string[]): ReadonlyMap<string, string> {
    const indexes = new Map<string, number>();
    const free = new Set(Array.from({ length: namedColors }, (_, index) => index));
    const assign = (name: string, index: number) => {
      free.delete(index);
      indexes.set(name, index);
      this.#indexes.set(name, index);
    };
    const byHash = names.toSorted((a, b) => hashOf(a) - hashOf(b) || (a < b ? -1 : 1));
    for (const name of byHash) {
      const known = this.#indexes.get(name);
      if (known !== undefined && free.has(known)) assign(name, known);
    }
    for (const name of byHash) {
      if (!indexes.has(name)) assign(name, this.#choose(name, free));
    }
    return new Map([...indexes].map(([name, index]) => [name, colorAt(index)]));
  }

  /** Prefers colors that no other name has, so that later charts need not change any. */
  #choose(name: string, free: ReadonlySet<number>): number {
    const start = hashOf(name) % namedColors;
    const candidates = Array.from(
      { length: namedColors },
      (_, offset) => (start + offset) % namedColors,
    );
    const used = new Set(this.#indexes.values());
    return (
      candidates.find((index) => free.has(index) && !used.has(index)) ??
      candidates.find((index) => free.has(index)) ??
      start
    );
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash;
}
