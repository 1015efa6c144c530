import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { dayName } from '../format.ts';
import { useTheme } from '../theme.ts';

export interface Series {
  readonly name: string;
  /** One value per day, in the order of `days`; null if the day has none. */
  readonly values: readonly (number | null)[];
  /** The value for the whole period: times and rates cannot be added up from the days. */
  readonly total: number;
}

interface ChartProps {
  /** A description of the chart for people who cannot see it. */
  readonly label: string;
  /** UTC days as `YYYY-MM-DD`. */
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly kind: 'stack' | 'line';
  readonly format: (value: number) => string;
}

const height = 260;
const colors = 12;

/** A mark in the colour of a series: by its index, the same in the chart and in all legends. */
export function Swatch({ index }: { readonly index: number }) {
  return <i style={{ background: `var(${colorOf(index)})` }} aria-hidden="true" />;
}

const colorOf = (index: number) => `--chart-${index % colors}`;

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The sums of stacked bars, tallest first: each bar covers the lower part of the one before. */
function stacked(series: readonly Series[]): (number | null)[][] {
  const sums: number[] = [];
  const layers = series.map(({ values }) =>
    values.map((value, at) => {
      sums[at] = (sums[at] ?? 0) + (value ?? 0);
      return sums[at];
    }),
  );
  return layers.reverse();
}

function optionsOf({ series, kind, format }: ChartProps, width: number): uPlot.Options {
  const text = variable('--muted');
  const axis = {
    stroke: text,
    font: '12px system-ui, sans-serif',
    grid: { stroke: variable('--line'), width: 1 },
    ticks: { show: false },
  };
  const isStack = kind === 'stack';
  const bars = uPlot.paths.bars?.({ size: [0.72, 44], radius: 0.12 });
  const drawn = series.map((_, at): uPlot.Series => {
    const color = variable(colorOf(isStack ? series.length - 1 - at : at));
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
      { ...axis, size: 64, values: (_, splits) => ticks(splits, format) },
    ],
    series: [{}, ...drawn],
  };
}

/** Drops the decimals of round axis numbers; `2.00 s` is for measured values. */
const tick = (text: string) => text.replace(/\.0+(?= )/, '');

/** If rounding makes two labels equal, only whole numbers are labelled. */
function ticks(splits: readonly number[], format: ChartProps['format']): string[] {
  const texts = splits.map((value) => tick(format(value)));
  if (new Set(texts).size === texts.length) return texts;
  return texts.map((text, at) => (Number.isInteger(splits[at]) ? text : ''));
}

/** Ticks may fall between days; only those at midnight get a label. */
function dayLabel(seconds: number): string {
  return seconds % 86_400 === 0 ? dayName(seconds) : '';
}

function draw(frame: HTMLElement, props: ChartProps, onDay: (at: number | null) => void): uPlot {
  const seconds = props.days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1_000);
  const layers =
    props.kind === 'stack' ? stacked(props.series) : props.series.map(({ values }) => [...values]);
  const options = optionsOf(props, frame.clientWidth);
  const follow = (plot: uPlot) => onDay(plot.cursor.idx ?? null);
  return new uPlot(
    { ...options, tzDate: utc, hooks: { setCursor: [follow] } },
    [seconds, ...layers],
    frame,
  );
}

const utc = (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC');

/** The day to which each key moves, from the index of the day shown and of the last day. */
const steps: Readonly<Record<string, (at: number | null, last: number) => number>> = {
  ArrowLeft: (at, last) => Math.max(0, (at ?? last + 1) - 1),
  ArrowRight: (at, last) => Math.min(last, (at ?? -1) + 1),
  Home: () => 0,
  End: (_, last) => last,
};

/** Moves the chart's cursor to a day, for people who use the keyboard. */
function pointAt(plot: uPlot | undefined, at: number): void {
  const seconds = plot?.data[0][at];
  if (seconds !== undefined) plot?.setCursor({ left: plot.valToPos(seconds, 'x'), top: 0 });
}

export function Chart(props: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const drawing = useRef<uPlot | undefined>(undefined);
  const [day, setDay] = useState<number | null>(null);
  const { theme } = useTheme();
  const { label, days, series, kind } = props;
  const shown = JSON.stringify([days, series, kind, theme]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const plot = draw(element, props, setDay);
    drawing.current = plot;
    const follow = new ResizeObserver(() => {
      plot.setSize({ width: element.clientWidth, height });
    });
    follow.observe(element);
    return () => {
      follow.disconnect();
      plot.destroy();
    };
  }, [shown]);
  const last = days.length - 1;
  const step = (event: KeyboardEvent) => {
    const next = steps[event.key]?.(day, last);
    if (next === undefined) return;
    event.preventDefault();
    pointAt(drawing.current, next);
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
        onBlur={() => drawing.current?.setCursor({ left: -10, top: -10 })}
      />
      <Legend {...props} day={day} />
    </figure>
  );
}

/** The numbers of the day under the pointer, or else of the whole period. */
function shownOf({ days }: ChartProps, day: number | null) {
  const at = day !== null && day < days.length ? day : null;
  const amountOf = ({ values, total }: Series) => (at === null ? total : (values[at] ?? null));
  const when = at === null ? 'Whole period' : dayName(Date.parse(days[at] ?? '') / 1_000);
  return { when, amountOf };
}

/** The legend's numbers as a sentence, for screen readers. */
function describeDay(props: ChartProps, day: number | null): string {
  const { when, amountOf } = shownOf(props, day);
  const numbers = props.series.flatMap((one) => {
    const value = amountOf(one);
    return value === null ? [] : [`${one.name} ${props.format(value)}`];
  });
  return `${when}: ${numbers.join(', ')}`;
}

function Legend({ day, ...props }: ChartProps & { day: number | null }) {
  const { series, kind, format } = props;
  const { when, amountOf } = shownOf(props, day);
  const sum = series.reduce((total, one) => total + (amountOf(one) ?? 0), 0);
  return (
    <figcaption class="legend">
      <p>
        <b>{when}</b>
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
