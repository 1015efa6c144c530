import { brief, change, counted, milliseconds, percent } from '../format.ts';
import { choose } from '../route.ts';
import type { Day, Summary } from '../shapes.ts';

/** A number that a period has; each fills a tile and can be drawn in the chart. */
export interface Metric {
  readonly name: string;
  /** The unit of the number, if its name does not say it. */
  readonly unit?: string;
  /** The chart's title: what its bars or lines show. */
  readonly byDay: string;
  readonly total: (summary: Summary) => number;
  readonly ofDay: (day: Day) => number | null;
  readonly format: (value: number) => string;
  readonly exact: (value: number) => string;
  /** Whether the days' values add up to the period's: amounts do, rates and times do not. */
  readonly addsUp: boolean;
  /** For percentages, whose change is told in points: in percent it could be misread as points. */
  readonly isShare?: boolean;
  /** Whether more of it is good news, bad news, or neither. */
  readonly moreIs: 'good' | 'bad' | 'neither';
}

const amount = { format: brief, addsUp: true, moreIs: 'neither' } as const;
const average = { addsUp: false, moreIs: 'bad' } as const;

export const metrics = {
  spend: {
    ...amount,
    name: 'Spend',
    unit: 'credits',
    byDay: 'Credits spent by day',
    total: (summary) => summary.total_spend,
    ofDay: (day) => day.spend,
    exact: (value) => counted(value, 'credit'),
  },
  requests: {
    ...amount,
    name: 'Requests',
    byDay: 'Requests by day',
    total: (summary) => summary.total_requests,
    ofDay: (day) => day.requests,
    exact: (value) => counted(value, 'request'),
  },
  tokens: {
    ...amount,
    name: 'Tokens',
    byDay: 'Tokens by day, in and out',
    total: (summary) => summary.total_tokens,
    ofDay: (day) => day.tokens,
    exact: (value) => counted(value, 'token'),
  },
  errors: {
    ...average,
    name: 'Error rate',
    byDay: 'Share of requests that failed, by day',
    total: (summary) => summary.error_rate,
    ofDay: (day) => (day.requests === 0 ? null : (day.failed_requests / day.requests) * 100),
    format: percent,
    exact: percent,
    isShare: true,
  },
  latency: {
    ...average,
    name: 'Latency',
    byDay: 'Average time to the whole answer, by day',
    total: (summary) => summary.avg_latency_ms,
    ofDay: (day) => (day.requests === 0 ? null : day.avg_latency_ms),
    format: milliseconds,
    exact: (value) => `${milliseconds(value)} on average`,
  },
} as const satisfies Record<string, Metric>;

export type MetricName = keyof typeof metrics;

interface TilesProps {
  readonly now: Summary;
  readonly then: Summary;
  readonly metric: MetricName;
}

/** Each tile is a switch: it shows a number and puts it into the chart. */
export function MetricTiles({ now, then, metric }: TilesProps) {
  const names = Object.keys(metrics) as MetricName[];
  return (
    <fieldset class="tiles pick">
      <legend class="unseen">What the chart shows</legend>
      {names.map((name) => {
        const { format, exact, moreIs, isShare, name: title, unit }: Metric = metrics[name];
        const [value, past] = [valueIn(now, metrics[name]), valueIn(then, metrics[name])];
        return (
          <button
            key={name}
            type="button"
            class="tile"
            aria-pressed={name === metric}
            onClick={() => choose({ metric: name })}
          >
            <span class="tile-name">{unit ? `${title}, in ${unit}` : title}</span>
            {value === undefined ? (
              <strong>–</strong>
            ) : (
              <>
                <strong title={exact(value)}>{format(value)}</strong>
                <Change
                  now={value}
                  then={past}
                  moreIs={moreIs}
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

/** Without requests the amounts are zero, but latency and failure rate are unknown. */
function valueIn(summary: Summary, { total, addsUp }: Metric): number | undefined {
  return addsUp || summary.total_requests > 0 ? total(summary) : undefined;
}

interface ChangeProps {
  readonly now: number;
  readonly then: number | undefined;
  readonly moreIs: Metric['moreIs'];
  readonly format: (value: number) => string;
  readonly isShare?: boolean;
}

/** The change since the period before, in a few words. */
export function Change({ now, then, moreIs, format, isShare = false }: ChangeProps) {
  const exact = then === undefined ? undefined : isShare ? now - then : change(now, then);
  if (then === undefined || exact === undefined)
    return <span class="below">{now === 0 ? '–' : 'new in this period'}</span>;
  const share = Math.round(exact * 10) / 10;
  // Two numbers that are shown alike count as equal, even if they differ in hidden digits.
  if (share === 0 || format(now) === format(then)) return <span class="below">as before</span>;
  const isMore = share > 0;
  const tone = moreIs === 'neither' ? '' : isMore === (moreIs === 'good') ? 'good' : 'bad';
  const size = Math.abs(share);
  const changeText = isShare ? `${size} ${size === 1 ? 'point' : 'points'}` : percent(size);
  return (
    <span class={`below ${tone}`}>
      {isMore ? '▲' : '▼'} {changeText} from {format(then)}
    </span>
  );
}
