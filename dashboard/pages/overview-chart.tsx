import { Chart, type Series } from '../components/chart.tsx';
import { useKeyNames } from '../components/key-choice.tsx';
import type { Analytics, Day } from '../shapes.ts';
import { type GroupBy, groupByNames, nameOfGroup } from './overview-groups.tsx';
import { type Metric, type MetricName, metrics } from './overview-metrics.tsx';

interface OverviewChartProps {
  readonly analytics: Analytics;
  readonly metric: MetricName;
  readonly groupBy: GroupBy;
}

export function OverviewChart({ analytics, metric, groupBy }: OverviewChartProps) {
  const names = useKeyNames();
  const { name, total, dailyValue, format, isAdditive }: Metric = metrics[metric];
  const days = analytics.timeseries.map(({ date }) => date);
  const valuesOf = (series: readonly Day[]) => {
    const byDate = new Map(series.map((day) => [day.date, day]));
    return days.map((date) => {
      const day = byDate.get(date);
      return day ? dailyValue(day) : isAdditive ? 0 : null;
    });
  };
  const groups = (analytics.groups ?? []).map(
    (group): Series => ({
      name: nameOfGroup(group.value, groupBy, names),
      values: valuesOf(group.timeseries),
      total: total(group.summary),
    }),
  );
  const allSeries: Series = {
    name: 'All',
    values: valuesOf(analytics.timeseries),
    total: total(analytics.summary),
  };
  const series = isAdditive && groups.length > 0 ? groups : [...groups, allSeries];
  return (
    <Chart
      label={`${name} by day and ${groupByNames[groupBy].toLowerCase()}`}
      days={days}
      series={series}
      kind={isAdditive ? 'stack' : 'line'}
      format={format}
    />
  );
}
