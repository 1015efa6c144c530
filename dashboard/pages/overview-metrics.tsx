import { brief, change, milliseconds, percent, plural } from '../format.ts';
import { setQuery } from '../route.ts';
import type { Bucket, Summary } from '../shapes.ts';

/** A number that has its own tile and can also be shown in the chart. */
export interface Metric {
  readonly name: string;
  /** The unit, unless the name says it. */
  readonly unit?: string;
  /** The title of the chart, without “by day”. */
  readonly chartTitle: string;
  readonly total: (summary: Summary) => number;
  readonly bucketValue: (bucket: Bucket) => number | null;
  readonly format: (value: number) => string;
  readonly exact: (value: number) => string;
  /** True if the values of the buckets add up to the total. Those of rates and averages don't. */
  readonly isAdditive: boolean;
  /** True for percentages. Their change is in percentage points. */
  readonly isShare?: boolean;
  readonly increaseIs: 'good' | 'bad' | 'neither';
}

const amount = { format: brief, isAdditive: true, increaseIs: 'neither' } as const;
const average = { isAdditive: false, increaseIs: 'bad' } as const;

export const metrics = {
  spend: {
    ...amount,
    name: 'Spend',
    unit: 'credits',
    chartTitle: 'Credits spent',
    total: (summary) => summary.total_spend,
    bucketValue: (bucket) => bucket.spend,
    exact: (value) => plural(value, 'credit'),
  },
  requests: {
    ...amount,
    name: 'Requests',
    chartTitle: 'Requests',
    total: (summary) => summary.total_requests,
    bucketValue: (bucket) => bucket.requests,
    exact: (value) => plural(value, 'request'),
  },
  tokens: {
    ...amount,
    name: 'Tokens',
    chartTitle: 'Input and output tokens',
    total: (summary) => summary.total_tokens,
    bucketValue: (bucket) => bucket.tokens,
    exact: (value) => plural(value, 'token'),
  },
  errors: {
    ...average,
    name: 'Error rate',
    chartTitle: 'Error rate',
    total: (summary) => summary.error_rate,
    bucketValue: (bucket) =>
      bucket.requests === 0 ? null : (bucket.failed_requests / bucket.requests) * 100,
    format: percent,
    exact: percent,
    isShare: true,
  },
  latency: {
    ...average,
    name: 'Latency',
    chartTitle: 'Average latency',
    total: (summary) => summary.avg_latency_ms,
    bucketValue: (bucket) => (bucket.requests === 0 ? null : bucket.avg_latency_ms),
    format: milliseconds,
    exact: (value) => `${milliseconds(value)} on average`,
  },
} as const satisfies Record<string, Metric>;

export type MetricName = keyof typeof metrics;

interface TilesProps {
  readonly current: Summary;
  readonly previous: Summary;
  readonly metric: MetricName;
}

/** Tiles with the numbers of the period. Selecting one shows it in the chart. */
export function MetricTiles({ current, previous, metric }: TilesProps) {
  const names = Object.keys(metrics) as MetricName[];
  return (
    <fieldset class="tiles metric-tiles">
      <legend class="visually-hidden">Chart metric</legend>
      {names.map((name) => {
        const { format, exact, increaseIs, isShare, name: title, unit }: Metric = metrics[name];
        const value = valueIn(current, metrics[name]);
        return (
          <button
            key={name}
            type="button"
            class="tile"
            aria-pressed={name === metric}
            onClick={() => setQuery({ metric: name })}
          >
            <span class="tile-name">{unit ? `${title} (${unit})` : title}</span>
            {value === undefined ? (
              <strong>–</strong>
            ) : (
              <>
                <strong title={exact(value)}>{format(value)}</strong>
                <Change
                  current={value}
                  previous={valueIn(previous, metrics[name])}
                  increaseIs={increaseIs}
                  format={format}
                  {...(isShare ? { isShare } : {})}
                />
              </>
            )}
          </button>
        );
      })}
    </fieldset>
  );
}

/** Returns undefined for latency and error rate if there were no requests. */
function valueIn(summary: Summary, { total, isAdditive }: Metric): number | undefined {
  return isAdditive || summary.total_requests > 0 ? total(summary) : undefined;
}

interface ChangeProps {
  readonly current: number;
  readonly previous: number | undefined;
  readonly increaseIs: Metric['increaseIs'];
  readonly format: (value: number) => string;
  readonly isShare?: boolean;
}

/** Shows the change since the previous period. */
export function Change({ current, previous, increaseIs, format, isShare = false }: ChangeProps) {
  const exact = changeOf(current, previous, isShare);
  if (previous === undefined || exact === undefined)
    return <span class="below">{current === 0 ? '–' : 'new in this period'}</span>;
  const rounded = Math.round(exact * 10) / 10;
  // Numbers that are displayed the same count as equal, even if hidden digits differ.
  if (rounded === 0 || format(current) === format(previous)) {
    return <span class="below">no change</span>;
  }
  const isMore = rounded > 0;
  const tone = increaseIs === 'neither' ? '' : isMore === (increaseIs === 'good') ? 'good' : 'bad';
  const size = Math.abs(rounded);
  const changeText = isShare ? `${size} ${size === 1 ? 'point' : 'points'}` : percent(size);
  return (
    <span class={`below ${tone}`}>
      {isMore ? '▲' : '▼'} {changeText} from {format(previous)}
    </span>
  );
}

function changeOf(
  current: number,
  previous: number | undefined,
  isShare: boolean,
): number | undefined {
  if (previous === undefined) return undefined;
  return isShare ? current - previous : change(current, previous);
}
