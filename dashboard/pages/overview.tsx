import { requestJson } from '../api.ts';
import { Download } from '../components/download.tsx';
import { SelectField } from '../components/field.tsx';
import { KeyChoice } from '../components/key-choice.tsx';
import { Empty, Loading } from '../components/notes.tsx';
import { Card, Page } from '../components/page.tsx';
import { RangePicker } from '../components/range.tsx';
import { Refresh } from '../components/refresh.tsx';
import { daysIn, previousRange, type Range, rangeOf } from '../days.ts';
import { counted } from '../format.ts';
import { useLoad } from '../load.ts';
import { addressOf, choose, chosenIn, useRoute } from '../route.ts';
import { mayDo, useSession } from '../session.ts';
import type { Analytics } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';
import { OverviewChart } from './overview-chart.tsx';
import {
  failures,
  GroupTable,
  rowsBehind,
  type Scope,
  type SplitName,
  splitNames,
} from './overview-groups.tsx';
import { type MetricName, MetricTiles, metrics } from './overview-metrics.tsx';

function analyticsPath({ from, to }: Range, keyId: string, groupBy?: string): string {
  const query = new URLSearchParams({ start_date: from, end_date: to });
  if (keyId !== '') query.set('api_key_id', keyId);
  if (groupBy) query.set('group_by', groupBy);
  return `/v1/customer/analytics?${query}`;
}

function useChoices() {
  const route = useRoute();
  const { query } = route;
  return {
    range: rangeOf(route, 30),
    metric: chosenIn(metrics, query.get('metric'), 'spend'),
    split: chosenIn(splitNames, query.get('split'), 'model'),
    keyId: query.get('key') ?? '',
  };
}

function periodOf(range: Range): string {
  const days = daysIn(range);
  return days === 1 ? 'One day, compared with the one' : `${days} days, compared with the ${days}`;
}

export function Overview() {
  const { key } = useSession();
  const { range, metric, split, keyId } = useChoices();
  const name = JSON.stringify([range, split, keyId]);
  const loaded = useLoad(name, async (signal) => {
    const call = { key, signal };
    const [now, then] = await Promise.all([
      requestJson<Analytics>(analyticsPath(range, keyId, split), call),
      requestJson<Analytics>(analyticsPath(previousRange(range), keyId, split), call),
    ]);
    return { now, then };
  });
  const { data, reload } = loaded;
  const csv = analyticsPath(range, keyId).replace('/analytics?', '/analytics/export.csv?');
  return (
    <Page
      title="Overview"
      lead={`${periodOf(range)} before. Days are UTC.`}
      actions={
        <>
          <Download path={csv} name="tollgate-analytics.csv" text="CSV" />
          <Refresh {...loaded} />
        </>
      }
      isStale={loaded.isStale}
    >
      <div class="toolbar">
        <RangePicker range={range} />
        <KeyChoice value={keyId} onValue={(id) => choose({ key: id }, 'replace')} />
        <SelectField
          label="Split by"
          value={split}
          onValue={(value) => choose({ split: value })}
          options={Object.entries(splitNames)}
        />
      </div>
      <Loading of={loaded} what="Adding up…" />
      {data && (
        <Numbers {...data} metric={metric} split={split} scope={{ range, keyId }} reload={reload} />
      )}
    </Page>
  );
}

interface NumbersProps {
  readonly now: Analytics;
  readonly then: Analytics;
  readonly metric: MetricName;
  readonly split: SplitName;
  readonly scope: Scope;
  readonly reload: () => void;
}

function Numbers({ now, then, metric, split, scope, reload }: NumbersProps) {
  const session = useSession();
  const { total_requests, total_spend, failed_requests } = now.summary;
  if (total_requests === 0 && then.summary.total_requests === 0) {
    return (
      <Empty title="No requests in this period" curl={chatCurl()} reload={reload}>
        <p>
          Send one from a terminal
          {mayDo(session, 'chat') && (
            <>
              {' '}
              or the <a href={addressOf('playground')}>playground</a>
            </>
          )}
          ; it is counted here the moment it is answered.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <MetricTiles now={now.summary} then={then.summary} metric={metric} />
      <Card title={metrics[metric].byDay}>
        <OverviewChart analytics={now} metric={metric} split={split} />
      </Card>
      <Card title={`By ${splitNames[split].toLowerCase()}`}>
        <GroupTable groups={now.groups ?? []} then={then} split={split} scope={scope} />
        <p class="hint">
          <a href={rowsBehind(scope)}>{counted(total_requests, 'request')}</a> in all,{' '}
          {counted(total_spend, 'credit')}
          {failed_requests > 0 && (
            <>
              , <a href={rowsBehind(scope, { status: 'error' })}>{failures(now.summary)}</a>
            </>
          )}
          .
        </p>
      </Card>
    </>
  );
}
