import { requestJson } from '../api.ts';
import { Download } from '../components/download.tsx';
import { Empty, Loading } from '../components/feedback.tsx';
import { SelectField } from '../components/field.tsx';
import { KeyChoice } from '../components/key-choice.tsx';
import { Card, Page } from '../components/page.tsx';
import { RangePicker } from '../components/range.tsx';
import { Refresh } from '../components/refresh.tsx';
import { daysIn, previousRange, type Range, rangeOf } from '../days.ts';
import { plural } from '../format.ts';
import { useLoad } from '../load.ts';
import { optionIn, setQuery, urlFor, useRoute } from '../route.ts';
import { hasScope, useSession } from '../session.ts';
import type { Analytics } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';
import { OverviewChart } from './overview-chart.tsx';
import {
  failedRequests,
  type GroupBy,
  GroupTable,
  groupByNames,
  logsLink,
  type Scope,
} from './overview-groups.tsx';
import { type MetricName, MetricTiles, metrics } from './overview-metrics.tsx';

function analyticsPath(
  { from, to }: Range,
  keyId: string,
  groupBy?: string,
  granularity?: 'hour',
): string {
  const query = new URLSearchParams({ start_date: from, end_date: to });
  if (keyId !== '') query.set('api_key_id', keyId);
  if (groupBy) query.set('group_by', groupBy);
  if (from === to && granularity) query.set('granularity', granularity);
  return `/v1/customer/analytics?${query}`;
}

function useOptions() {
  const route = useRoute();
  const { query } = route;
  return {
    range: rangeOf(route, 30),
    metric: optionIn(metrics, query.get('metric'), 'spend'),
    groupBy: optionIn(groupByNames, query.get('split'), 'model'),
    keyId: query.get('key') ?? '',
  };
}

function periodOf(range: Range): string {
  const days = daysIn(range);
  return days === 1
    ? '1 day, compared with the previous day'
    : `${days} days, compared with the previous ${days}`;
}

export function Overview() {
  const { key } = useSession();
  const { range, metric, groupBy, keyId } = useOptions();
  const name = JSON.stringify([range, groupBy, keyId]);
  const loaded = useLoad(name, async (signal) => {
    const call = { key, signal };
    const [current, previous] = await Promise.all([
      requestJson<Analytics>(analyticsPath(range, keyId, groupBy, 'hour'), call),
      requestJson<Analytics>(analyticsPath(previousRange(range), keyId, groupBy), call),
    ]);
    return { current, previous };
  });
  const { data, reload } = loaded;
  const csv = analyticsPath(range, keyId).replace('/analytics?', '/analytics/export.csv?');
  return (
    <Page
      title="Overview"
      lead={`${periodOf(range)}. Times are in UTC.`}
      actions={
        <>
          <Download path={csv} name="tollgate-analytics.csv" text="Export CSV" />
          <Refresh {...loaded} />
        </>
      }
      isStale={loaded.isStale}
    >
      <div class="toolbar">
        <RangePicker range={range} />
        <KeyChoice value={keyId} onValue={(id) => setQuery({ key: id }, 'replace')} />
        <SelectField
          label="Group by"
          value={groupBy}
          onValue={(value) => setQuery({ split: value })}
          options={Object.entries(groupByNames)}
        />
      </div>
      <Loading loaded={loaded} text="Loading usage…" />
      {data && (
        <Numbers
          {...data}
          metric={metric}
          groupBy={groupBy}
          scope={{ range, keyId }}
          reload={reload}
        />
      )}
    </Page>
  );
}

interface NumbersProps {
  readonly current: Analytics;
  readonly previous: Analytics;
  readonly metric: MetricName;
  readonly groupBy: GroupBy;
  readonly scope: Scope;
  readonly reload: () => void;
}

function Numbers({ current, previous, metric, groupBy, scope, reload }: NumbersProps) {
  const session = useSession();
  const { total_requests, total_spend, failed_requests } = current.summary;
  if (total_requests === 0 && previous.summary.total_requests === 0) {
    return (
      <Empty title="No requests in this period" curl={chatCurl()} reload={reload}>
        <p>
          Send a request from a terminal
          {hasScope(session, 'chat') && (
            <>
              {' '}
              or the <a href={urlFor('playground')}>playground</a>
            </>
          )}
          . It appears here when it completes.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <MetricTiles current={current.summary} previous={previous.summary} metric={metric} />
      <Card title={`${metrics[metric].chartTitle} by ${current.granularity ?? 'day'}`}>
        <OverviewChart analytics={current} metric={metric} groupBy={groupBy} />
      </Card>
      <Card title={`By ${groupByNames[groupBy].toLowerCase()}`}>
        <GroupTable
          groups={current.groups ?? []}
          previous={previous}
          groupBy={groupBy}
          scope={scope}
        />
        <p class="hint">
          Total: <a href={logsLink(scope)}>{plural(total_requests, 'request')}</a>,{' '}
          {plural(total_spend, 'credit')}
          {failed_requests > 0 && (
            <>
              , <a href={logsLink(scope, { status: 'error' })}>{failedRequests(current.summary)}</a>
            </>
          )}
          .
        </p>
      </Card>
    </>
  );
}
