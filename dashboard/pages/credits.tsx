import { feeEntries } from '../../src/money/price/fee-kinds.ts';
import { requestData, requestJson } from '../api.ts';
import { Chart } from '../components/chart.tsx';
import { onlyColor } from '../components/chart-colors.ts';
import { Download } from '../components/download.tsx';
import { Empty, Loading, Progress } from '../components/feedback.tsx';
import { Card, DescriptionList, Page, Tile, Tiles } from '../components/page.tsx';
import { Refresh } from '../components/refresh.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { daysLeft, lastDays, monthOf } from '../days.ts';
import { brief, count, date, monthName, plural, resetPeriods, usd } from '../format.ts';
import { useLoad } from '../load.ts';
import { urlFor } from '../route.ts';
import { type Session, useSession } from '../session.ts';
import type { Analytics, Credits, Key, StatementMonth } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';

interface CreditsData {
  readonly credits: Credits;
  readonly month: Analytics;
  readonly statements: readonly StatementMonth[];
  /** The signed-in key; null for a management key, which can't spend. */
  readonly ownKey: Key | null;
}

async function loadCredits({ key, kind }: Session, signal: AbortSignal): Promise<CreditsData> {
  const call = { key, signal };
  const { from, to } = monthOf(lastDays(1).to);
  const [credits, month, statements, ownKey] = await Promise.all([
    requestJson<Credits>('/v1/customer/credits', call),
    requestJson<Analytics>(`/v1/customer/analytics?start_date=${from}&end_date=${to}`, call),
    requestData<StatementMonth[]>('/v1/customer/billing/statements', call),
    kind === 'routing' ? requestData<Key>('/v1/key', call) : null,
  ]);
  return { credits, month, statements, ownKey };
}

export function CreditsPage() {
  const session = useSession();
  const loaded = useLoad('credits', (signal) => loadCredits(session, signal));
  const { data } = loaded;
  return (
    <Page
      title="Credits"
      lead="Balance, spend, and monthly statements. Months are in UTC."
      actions={<Refresh {...loaded} />}
    >
      <Loading loaded={loaded} text="Loading credits…" />
      {data && <Balance {...data} />}
      {data?.ownKey && <KeyLimit ownKey={data.ownKey} />}
      {data && <ThisMonth {...data} />}
      {data && <Statements months={data.statements} />}
    </Page>
  );
}

function daysLeftText({ credits: { balance, current_period } }: CreditsData): string | undefined {
  const left = daysLeft(balance.available, current_period.total_spend);
  if (left === undefined) return undefined;
  return left > 3_650
    ? 'lasts for years'
    : `lasts about ${plural(left, 'day')} at this month's rate`;
}

function Balance(data: CreditsData) {
  const { balance, current_period, lifetime, credits_per_usd } = data.credits;
  const dollars = (credits: number) => usd(credits / credits_per_usd);
  const requests = plural(current_period.requests, 'request');
  const granted = count(lifetime.granted + lifetime.adjusted);
  return (
    <Tiles>
      <Tile
        name="Available"
        value={count(balance.available)}
        below={[dollars(balance.available), daysLeftText(data)].filter(Boolean).join(', ')}
      />
      <Tile
        name="Held by running requests"
        value={count(balance.held)}
        below={`of ${count(balance.total)} total`}
      />
      <Tile
        name="Spent this month"
        value={count(current_period.total_spend)}
        below={`${dollars(current_period.total_spend)}, ${requests}`}
      />
      <Tile
        name="Spent in total"
        value={count(lifetime.spent)}
        below={`${dollars(lifetime.spent)}, of ${granted} granted`}
      />
    </Tiles>
  );
}

function KeyLimit({ ownKey }: { readonly ownKey: Key }) {
  const { limit, limit_remaining, limit_reset, limit_resets_at, usage } = ownKey;
  const left = limit_remaining ?? 0;
  const period = limit_reset === null ? '' : resetPeriods[limit_reset];
  return (
    <Card title="Credit limit of this key">
      {limit === null ? (
        <p>This key has no limit. It has spent {plural(usage, 'credit')} so far.</p>
      ) : (
        <>
          <p>
            <b>{count(left)}</b> of {plural(limit, 'credit')} left{period}.
            {limit_resets_at !== null && ` Resets on ${date(limit_resets_at)}.`}
          </p>
          <Progress share={limit === 0 ? 1 : 1 - left / limit} label="Share of the limit spent" />
        </>
      )}
    </Card>
  );
}

function ThisMonth({ month, credits }: CreditsData) {
  const { current_period } = credits;
  const name = monthName(current_period.start_date.slice(0, 7));
  if (month.summary.total_requests === 0) {
    return (
      <Empty title={`No spend in ${name}`} curl={chatCurl()}>
        <p>Your first request of the month will appear here.</p>
      </Empty>
    );
  }
  const spent = {
    name: 'Credits',
    color: onlyColor,
    values: month.timeseries.map(({ spend }) => spend),
    total: month.summary.total_spend,
  };
  return (
    <Card title={`Credits spent by day in ${name}`}>
      <Chart
        label={`Credits spent by day in ${name}`}
        buckets={month.timeseries}
        series={[spent]}
        kind="stack"
        format={brief}
      />
      <DescriptionList
        areNumbers
        items={feeEntries.map(([, { sumLabel, sumName }]) => [
          sumLabel,
          count(current_period[sumName]),
        ])}
      />
    </Card>
  );
}

function hasActivity(month: StatementMonth): boolean {
  return month.opening_balance + month.granted + Math.abs(month.corrected) + month.charged > 0;
}

function Statements({ months }: { readonly months: readonly StatementMonth[] }) {
  const active = months.filter(hasActivity);
  if (active.length === 0) {
    return (
      <Empty title="No statements yet">
        <p>Statements start with the first credit grant.</p>
      </Empty>
    );
  }
  const columns: Column<StatementMonth>[] = [
    { title: 'Month', isHead: true, cell: ({ month }) => <Month month={month} /> },
    numberColumn('Opening', ({ opening_balance }) => count(opening_balance)),
    numberColumn('Granted', ({ granted }) => count(granted)),
    numberColumn('Corrected', ({ corrected }) => count(corrected)),
    numberColumn('Charged', ({ charged }) => <b>{count(-charged)}</b>),
    numberColumn('Closing', ({ closing_balance }) => count(closing_balance)),
    { title: 'Statement', cell: ({ month }) => <Statement month={month} /> },
  ];
  return (
    <Card title="Statements">
      <Table
        label="Statements by month"
        columns={columns}
        rows={active}
        rowKey={({ month }) => month}
      />
      <p class="hint">The closing balance is the sum of the other columns.</p>
    </Card>
  );
}

/** Links to the month in Overview, which explains its charges. */
function Month({ month }: { readonly month: string }) {
  const { from, to } = monthOf(`${month}-01`);
  return <a href={urlFor('', { from, to })}>{monthName(month)}</a>;
}

function Statement({ month }: { readonly month: string }) {
  return (
    <Download
      path={`/v1/customer/billing/usage-statement.csv?month=${month}`}
      name={`tollgate-statement-${month}.csv`}
      text="Download CSV"
      subject={`for ${monthName(month)}`}
      variant="link"
    />
  );
}
