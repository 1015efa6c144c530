import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { bucketName, dayName, hourName } from '../format.ts';
import { useTheme } from '../theme.ts';

export interface Series {
  readonly name: string;
  /** A CSS color. */
  readonly color: string;
  /** One value per bucket, in the order of `buckets`, or null. */
  readonly values: readonly (number | null)[];
  /** The value for the entire period. Averages and rates can't be computed from `values`. */
  readonly total: number;
}

/** A day, or an hour of it from 0 to 23. */
export interface BucketTime {
  readonly date: string;
  readonly hour?: number;
}

interface ChartProps {
  /** A description of the chart for screen readers. */
  readonly label: string;
  /** The UTC days or hours. */
  readonly buckets: readonly BucketTime[];
  readonly series: readonly Series[];
  readonly kind: 'stack' | 'line';
  readonly format: (value: number) => string;
}

const height = 260;

/** A mark in the color of a series. */
export function Swatch({ color }: Pick<Series, 'color'>) {
  return <i style={{ background: color }} aria-hidden="true" />;
}

const startOf = ({ date, hour = 0 }: BucketTime) =>
  Date.parse(`${date}T00:00:00Z`) / 1_000 + hour * hourSeconds;

const hourSeconds = 3_600;
const daySeconds = 86_400;

/** Returns the length of the buckets in seconds. */
const lengthOf = ([first]: readonly BucketTime[]) =>
  first?.hour === undefined ? daySeconds : hourSeconds;

/**
 * Returns the start and end of the x axis. uPlot's own bounds aren't used, because it extends those
 * of a single bucket to three years.
 */
function timeRange(buckets: readonly BucketTime[]): [number, number] {
  const [first, last] = [buckets[0], buckets.at(-1)];
  const half = lengthOf(buckets) / 2;
  return first && last ? [startOf(first) - half, startOf(last) + half] : [0, half];
}

/** Resolves the theme's variables, because a canvas doesn't. */
function canvasColor(color: string): string {
  const [, name] = /^var\((.+)\)$/.exec(color) ?? [];
  return name === undefined ? color : cssVariable(name);
}

function cssVariable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Returns the heights of stacked bars, tallest first, because each is drawn over the last one. */
function stacked(series: readonly Series[]): (number | null)[][] {
  const sums: number[] = [];
  const layers = series.map(({ values }) =>
    values.map((value, index) => {
      sums[index] = (sums[index] ?? 0) + (value ?? 0);
      return sums[index];
    }),
  );
  return layers.reverse();
}

function optionsOf({ buckets, series, kind, format }: ChartProps, width: number): uPlot.Options {
  const axis = {
    stroke: cssVariable('--muted'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: cssVariable('--line'), width: 1 },
    ticks: { show: false },
  };
  const isStack = kind === 'stack';
  const bars = uPlot.paths.bars?.({ size: [0.72, 44], radius: 0.12 });
  const length = lengthOf(buckets);
  const drawn = (isStack ? series.toReversed() : series).map((one): uPlot.Series => {
    const color = canvasColor(one.color);
    if (isStack && bars) return { fill: color, paths: bars, points: { show: false } };
    return { stroke: color, width: 2, points: { show: true, size: 5, fill: color } };
  });
  return {
    width,
    height,
    padding: [12, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: !isStack }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => timeRange(buckets) },
      y: { range: (_, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 34,
        grid: { show: false },
        values: (_, splits) => splits.map(length === daySeconds ? dayLabel : hourLabel),
        space: 64,
      },
      { ...axis, size: 64, values: (_, splits) => tickLabels(splits, format) },
    ],
    series: [{}, ...drawn],
  };
}

/** Drops the decimals of round axis labels: `2.00 s` becomes `2 s`. */
const withoutZeros = (text: string) => text.replace(/\.0+(?= )/, '');

/** Returns the labels of an axis. If rounding makes two labels equal, labels only integers. */
function tickLabels(splits: readonly number[], format: ChartProps['format']): string[] {
  const texts = splits.map((value) => withoutZeros(format(value)));
  if (new Set(texts).size === texts.length) return texts;
  return texts.map((text, index) => (Number.isInteger(splits[index]) ? text : ''));
}

/** Labels only ticks at midnight, because ticks may fall between days. */
function dayLabel(seconds: number): string {
  return seconds % daySeconds === 0 ? dayName(seconds) : '';
}

function hourLabel(seconds: number): string {
  return seconds % hourSeconds === 0 ? hourName(seconds) : '';
}

function draw(
  frame: HTMLElement,
  props: ChartProps,
  onBucket: (index: number | null) => void,
): uPlot {
  const seconds = props.buckets.map(startOf);
  const layers =
    props.kind === 'stack' ? stacked(props.series) : props.series.map(({ values }) => [...values]);
  const options = optionsOf(props, frame.clientWidth);
  const reportBucket = (plot: uPlot) => onBucket(plot.cursor.idx ?? null);
  return new uPlot(
    { ...options, tzDate: utc, hooks: { setCursor: [reportBucket] } },
    [seconds, ...layers],
    frame,
  );
}

const utc = (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC');

/** Returns the bucket that a keyboard key selects, given the selected and the last bucket. */
const keyboardSteps: Readonly<Record<string, (bucket: number | null, last: number) => number>> = {
  ArrowLeft: (bucket, last) => Math.max(0, (bucket ?? last + 1) - 1),
  ArrowRight: (bucket, last) => Math.min(last, (bucket ?? -1) + 1),
  Home: () => 0,
  End: (_, last) => last,
};

/** Moves the chart's cursor to a bucket. */
function moveCursorTo(plot: uPlot | undefined, bucket: number): void {
  const seconds = plot?.data[0][bucket];
  if (seconds !== undefined) plot?.setCursor({ left: plot.valToPos(seconds, 'x'), top: 0 });
}

export function Chart(props: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plotRef = useRef<uPlot | undefined>(undefined);
  const [bucket, setBucket] = useState<number | null>(null);
  const { theme } = useTheme();
  const { label, buckets, series, kind } = props;
  const plotKey = JSON.stringify([buckets, series, kind, theme]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const plot = draw(element, props, setBucket);
    plotRef.current = plot;
    const resizing = new ResizeObserver(() => {
      plot.setSize({ width: element.clientWidth, height });
    });
    resizing.observe(element);
    return () => {
      resizing.disconnect();
      plot.destroy();
    };
  }, [plotKey]);
  const last = buckets.length - 1;
  const step = (event: KeyboardEvent) => {
    const next = keyboardSteps[event.key]?.(bucket, last);
    if (next === undefined) return;
    event.preventDefault();
    moveCursorTo(plotRef.current, next);
  };
  return (
    <figure class="chart">
      <div
        ref={frame}
        class="chart-frame"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={bucket ?? last}
        aria-valuetext={describeBucket(props, bucket)}
        onKeyDown={step}
        onBlur={() => plotRef.current?.setCursor({ left: -10, top: -10 })}
      />
      <Legend {...props} bucket={bucket} />
    </figure>
  );
}

/** Returns the numbers of the bucket under the pointer, or of the entire period. */
function selectedValues({ buckets }: ChartProps, bucket: number | null) {
  const selected = bucket === null ? undefined : buckets[bucket];
  const amountOf = ({ values, total }: Series) =>
    bucket === null || selected === undefined ? total : (values[bucket] ?? null);
  return { period: selected ? bucketName(selected) : 'Entire period', amountOf };
}

/** Returns the legend's numbers as text for screen readers. */
function describeBucket(props: ChartProps, bucket: number | null): string {
  const { period, amountOf } = selectedValues(props, bucket);
  const numbers = props.series.flatMap((one) => {
    const value = amountOf(one);
    return value === null ? [] : [`${one.name} ${props.format(value)}`];
  });
  return `${period}: ${numbers.join(', ')}`;
}

function Legend({ bucket, ...props }: ChartProps & { bucket: number | null }) {
  const { series, kind, format } = props;
  const { period, amountOf } = selectedValues(props, bucket);
  const sum = series.reduce((total, one) => total + (amountOf(one) ?? 0), 0);
  return (
    <figcaption class="legend">
      <p>
        <b>{period}</b>
        {kind === 'stack' && series.length > 1 && <span class="legend-value">{format(sum)}</span>}
      </p>
      <ul>
        {series.map((one, index) => {
          const value = amountOf(one);
          return (
            <li key={`${index} ${one.name}`}>
              <Swatch color={one.color} />
              <span class="legend-name">{one.name}</span>
              <span class="legend-value">{value === null ? '' : format(value)}</span>
            </li>
          );
        })}
      </ul>
    </figcaption>
  );
}
