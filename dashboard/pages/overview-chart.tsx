import { Chart, type Series } from '../components/chart.tsx';
import { totalColor } from '../components/chart-colors.ts';
import { useKeyNames } from '../components/key-choice.tsx';
import { bucketName } from '../format.ts';
import type { Analytics, Bucket } from '../shapes.ts';
import { colorsOfGroups, type GroupBy, groupByNames, nameOfGroup } from './overview-groups.tsx';
import { type Metric, type MetricName, metrics } from './overview-metrics.tsx';

interface OverviewChartProps {
  readonly analytics: Analytics;
  readonly metric: MetricName;
  readonly groupBy: GroupBy;
}

export function OverviewChart({ analytics, metric, groupBy }: OverviewChartProps) {
  const names = useKeyNames();
  const { name, total, bucketValue, format, isAdditive }: Metric = metrics[metric];
  const buckets = analytics.timeseries;
  const valuesOf = (series: readonly Bucket[]) => {
    const byName = new Map(series.map((bucket) => [bucketName(bucket), bucket]));
    return buckets.map((one) => {
      const bucket = byName.get(bucketName(one));
      return bucket ? bucketValue(bucket) : isAdditive ? 0 : null;
    });
  };
  const found = analytics.groups ?? [];
  const colorOf = colorsOfGroups(found, groupBy);
  const groups = found.map(
    (group): Series => ({
      name: nameOfGroup(group.value, groupBy, names),
      color: colorOf(group),
      values: valuesOf(group.timeseries),
      total: total(group.summary),
    }),
  );
  const allSeries: Series = {
    name: 'All',
    color: totalColor,
    values: valuesOf(buckets),
    total: total(analytics.summary),
  };
  const series = isAdditive && groups.length > 0 ? groups : [...groups, allSeries];
  const length = analytics.granularity ?? 'day';
  return (
    <Chart
      label={`${name} by ${length} and ${groupByNames[groupBy].toLowerCase()}`}
      buckets={buckets}
      series={series}
      kind={isAdditive ? 'stack' : 'line'}
      format={format}
    />
  );
}
