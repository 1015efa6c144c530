/** Metrics as Prometheus reads them: text format 0.0.4. */

export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';

export interface Sample {
  /** As `labels` writes them: once per series, as a histogram has dozens of samples. */
  readonly labels?: string;
  readonly value: number;
  /** `_bucket`, `_sum` or `_count` of a histogram. */
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

/** `common` labels stand on every sample. */
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

/** Labels as they stand between the braces of a sample. */
export function labels(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',');
}

function escapeLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
