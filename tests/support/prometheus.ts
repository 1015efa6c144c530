import { waitUntil } from './wait-until.ts';

/**
import { waitUntil } from './wait-until.ts';
 * Parses the Prometheus text format strictly. Throws if Prometheus or promtool would reject it.
 */
export class Scrape {
  readonly types = new Map<string, string>();
  readonly #values = new Map<string, number>();

  constructor(text: string) {
    if (!text.endsWith('\n')) throw new Error('The last line has no line break.');
    for (const line of text.trimEnd().split('\n')) this.#read(line);
  }

  /** Returns the value of a series, or undefined if it doesn't exist. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    return this.#values.get(keyOf(name, Object.entries(labels)));
  }

  /** Returns all series of a metric, with their labels. */
  series(name: string): string[] {
    return [...this.#values.keys()].filter((key) => key.startsWith(`${name}{`));
  }

  get names(): string[] {
    return [...this.types.keys()];
  }

  #read(line: string): void {
    if (line.startsWith('# HELP ')) return;
    const [, typed, type = ''] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (typed !== undefined) {
      if (this.types.has(typed)) throw new Error(`${typed} has two TYPE lines.`);
      this.types.set(typed, type);
      return;
    }
    const [, name = '', inside = '', number = ''] =
      /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const family = name.replace(/_(?:bucket|sum|count)$/, '');
    if (!this.types.has(name) && this.types.get(family) !== 'histogram') {
      throw new Error(`The metric has no TYPE line: ${line}`);
    }
    const labels = labelsOf(inside);
    const isBucket = name === `${family}_bucket`;
    if (labels.some(([label]) => label === 'quantile' || (label === 'le' && !isBucket))) {
      throw new Error(`The label is reserved by Prometheus: ${line}`);
    }
    const key = keyOf(name, labels);
    if (this.#values.has(key)) throw new Error(`${key} occurs twice.`);
    const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number);
    if (Number.isNaN(value)) throw new Error(`The value isn't a number: ${line}`);
    this.#values.set(key, value);
  }
}

/** Waits for metrics written after the call, because the gateway caches the page for a moment. */
export async function scrapeFresh(url: string): Promise<Scrape> {
  const read = async () => {
    const response = await fetch(`${url}/metrics`);
    if (response.status !== 200) throw new Error(`/metrics returned ${response.status}.`);
    return new Scrape(await response.text());
  };
  // The process uses CPU time while it responds, so a page with a different value is a new page.
  const cpu = (page: Scrape) => page.value('process_cpu_seconds_total');
  const first = await read();
  return waitUntil(async () => {
    const next = await read();
    return cpu(next) !== cpu(first) && next;
  });
}

function labelsOf(inside: string): [string, string][] {
  const pairs = [...inside.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)/g)];
  const parsed = pairs.map(([pair]) => pair).join('');
  if (parsed !== inside) throw new Error(`The labels are malformed: ${inside}`);
  return pairs.map(([, name = '', text = '']) => [name, unescapeLabel(text)]);
}

function unescapeLabel(text: string): string {
  return text.replace(/\\(.)/g, (_, next: string) => (next === 'n' ? '\n' : next));
}

function keyOf(name: string, labels: readonly (readonly [string, string])[]): string {
  const sorted = labels.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `${name}{${sorted.map(([label, value]) => `${label}=${value}`).join(',')}}`;
}
