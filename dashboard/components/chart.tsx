import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { dayName } from '../format.ts';
import { useTheme } from '../theme.ts';

export interface Series {
  readonly name: string;
  /** One value per day, in the order of `days`, or null. */
  readonly values: readonly (number | null)[];
  /** The value for the entire period. Averages and rates can't be computed from `values`. */
  readonly total: number;
}

interface ChartProps {
  /** A description of the chart for screen readers. */
  readonly label: string;
  /** UTC days as `YYYY-MM-DD`. */
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly kind: 'stack' | 'line';
  readonly format: (value: number) => string;
}

const height = 260;
const colorCount = 12;

/** A mark in the color of a series. Charts and legends use the same color for the same index. */
export function Swatch({ index }: { readonly index: number }) {
  return <i style={{ background: `var(${colorOf(index)})` }} aria-hidden="true" />;
}

const colorOf = (index: number) => `--chart-${index % colorCount}`;

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

function optionsOf({ series, kind, format }: ChartProps, width: number): uPlot.Options {
  const axis = {
    stroke: cssVariable('--muted'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: cssVariable('--line'), width: 1 },
    ticks: { show: false },
  };
  const isStack = kind === 'stack';
  const bars = uPlot.paths.bars?.({ size: [0.72, 44], radius: 0.12 });
  const drawn = series.map((_, index): uPlot.Series => {
    const color = cssVariable(colorOf(isStack ? series.length - 1 - index : index));
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
      x: { time: true, range: (_, min, max) => [min - 43_200, max + 43_200] },
      y: { range: (_, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 34,
        grid: { show: false },
        values: (_, splits) => splits.map(dayLabel),
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
  return seconds % 86_400 === 0 ? dayName(seconds) : '';
}

function draw(frame: HTMLElement, props: ChartProps, onDay: (index: number | null) => void): uPlot {
  const seconds = props.days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1_000);
  const layers =
    props.kind === 'stack' ? stacked(props.series) : props.series.map(({ values }) => [...values]);
  const options = optionsOf(props, frame.clientWidth);
  const reportDay = (plot: uPlot) => onDay(plot.cursor.idx ?? null);
  return new uPlot(
    { ...options, tzDate: utc, hooks: { setCursor: [reportDay] } },
    [seconds, ...layers],
    frame,
  );
}

const utc = (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC');

/** Returns the day that a keyboard key selects, given the selected day and the last day. */
const keyboardSteps: Readonly<Record<string, (day: number | null, last: number) => number>> = {
  ArrowLeft: (day, last) => Math.max(0, (day ?? last + 1) - 1),
  ArrowRight: (day, last) => Math.min(last, (day ?? -1) + 1),
  Home: () => 0,
  End: (_, last) => last,
};

/** Moves the chart's cursor to a day. */
function moveCursorTo(plot: uPlot | undefined, day: number): void {
  const seconds = plot?.data[0][day];
  if (seconds !== undefined) plot?.setCursor({ left: plot.valToPos(seconds, 'x'), top: 0 });
}

export function Chart(props: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plotRef = useRef<uPlot | undefined>(undefined);
  const [day, setDay] = useState<number | null>(null);
  const { theme } = useTheme();
  const { label, days, series, kind } = props;
  const plotKey = JSON.stringify([days, series, kind, theme]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const plot = draw(element, props, setDay);
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
  const last = days.length - 1;
  const step = (event: KeyboardEvent) => {
    const next = keyboardSteps[event.key]?.(day, last);
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
        aria-valuenow={day ?? last}
        aria-valuetext={describeDay(props, day)}
        onKeyDown={step}
        onBlur={() => plotRef.current?.setCursor({ left: -10, top: -10 })}
      />
      <Legend {...props} day={day} />
    </figure>
  );
}

/** Returns the numbers of the day under the pointer, or of the entire period. */
function selectedValues({ days }: ChartProps, day: number | null) {
  const index = day !== null && day < days.length ? day : null;
  const amountOf = ({ values, total }: Series) =>
    index === null ? total : (values[index] ?? null);
  const period = index === null ? 'Entire period' : dayName(Date.parse(days[index] ?? '') / 1_000);
  return { period, amountOf };
}

/** Returns the legend's numbers as text for screen readers. */
function describeDay(props: ChartProps, day: number | null): string {
  const { period, amountOf } = selectedValues(props, day);
  const numbers = props.series.flatMap((one) => {
    const value = amountOf(one);
    return value === null ? [] : [`${one.name} ${props.format(value)}`];
  });
  return `${period}: ${numbers.join(', ')}`;
}

function Legend({ day, ...props }: ChartProps & { day: number | null }) {
  const { series, kind, format } = props;
  const { period, amountOf } = selectedValues(props, day);
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
              <Swatch index={index} />
              <span class="legend-name">{one.name}</span>
              <span class="legend-value">{value === null ? '' : format(value)}</span>
            </li>
          );
        })}
      </ul>
    </figcaption>
  );
}
