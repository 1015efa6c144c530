/** Reads Prometheus' text format strictly: throws where Prometheus or `promtool` would refuse. */
export class Scrape {
  readonly types = new Map<string, string>();
  readonly #values = new Map<string, number>();

  constructor(text: string) {
    if (!text.endsWith('\n')) throw new Error('The last line must end.');
    for (const line of text.trimEnd().split('\n')) this.#read(line);
  }

  /** The value of one series; undefined when there is none. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    return this.#values.get(keyOf(name, Object.entries(labels)));
  }

  /** Every series of one name, as `{labels}`. */
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
      if (this.types.has(typed)) throw new Error(`${typed} is told twice.`);
      this.types.set(typed, type);
      return;
    }
    const [, name = '', inside = '', number = ''] =
      /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const family = name.replace(/_(?:bucket|sum|count)$/, '');
    if (!this.types.has(name) && this.types.get(family) !== 'histogram') {
      throw new Error(`This belongs to no family: ${line}`);
    }
    const labels = labelsOf(inside);
    const isBucket = name === `${family}_bucket`;
    if (labels.some(([label]) => label === 'quantile' || (label === 'le' && !isBucket))) {
      throw new Error(`A label that means something else to Prometheus: ${line}`);
    }
    const key = keyOf(name, labels);
    if (this.#values.has(key)) throw new Error(`${key} is there twice.`);
    const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number);
    if (Number.isNaN(value)) throw new Error(`This is no number: ${line}`);
    this.#values.set(key, value);
  }
}

/** The gateway reuses a page for a moment: this waits for one that was written after the call. */
export async function scrapeFresh(url: string): Promise<Scrape> {
  const read = async () => {
    const response = await fetch(`${url}/metrics`);
    if (response.status !== 200) throw new Error(`No metrics: ${response.status}`);
    return new Scrape(await response.text());
  };
  // The process uses CPU time while it answers, so a page with another number is a new one.
  const cpu = (page: Scrape) => page.value('process_cpu_seconds_total');
  const first = await read();
  for (;;) {
    const next = await read();
    if (cpu(next) !== cpu(first)) return next;
    await Bun.sleep(5);
  }
}

function labelsOf(inside: string): [string, string][] {
  const pairs = [...inside.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)/g)];
  const read = pairs.map(([whole]) => whole).join('');
  if (read !== inside) throw new Error(`These are no labels: ${inside}`);
  return pairs.map(([, name = '', text = '']) => [name, unescaped(text)]);
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, (_, next: string) => (next === 'n' ? '\n' : next));
}

function keyOf(name: string, labels: readonly (readonly [string, string])[]): string {
  const sorted = labels.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `${name}{${sorted.map(([label, value]) => `${label}=${value}`).join(',')}}`;
}
