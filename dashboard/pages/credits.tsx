import { feeEntries } from '../../src/money/price/fee-kinds.ts';
import { requestData, requestJson } from '../api.ts';
import { Chart } from '../components/chart.tsx';
import { Download } from '../components/download.tsx';
import { Empty, Loading, Progress } from '../components/notes.tsx';
import { Card, DescriptionList, Page, Tile, Tiles } from '../components/page.tsx';
import { Refresh } from '../components/refresh.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { daysLeft, lastDays, monthOf } from '../days.ts';
import { brief, count, counted, date, monthName, usd } from '../format.ts';
import { useLoad } from '../load.ts';
import { addressOf } from '../route.ts';
import { type Session, useSession } from '../session.ts';
import type { Analytics, Credits, Key, StatementMonth } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';

interface Money {
  readonly credits: Credits;
  readonly month: Analytics;
  readonly statements: readonly StatementMonth[];
  /** The user's own key if it can spend, which a management key cannot. */
  readonly own: Key | null;
}

async function loadMoney({ key, kind }: Session, signal: AbortSignal): Promise<Money> {
  const call = { key, signal };
  const { from, to } = monthOf(lastDays(1).to);
  const [credits, month, statements, own] = await Promise.all([
    requestJson<Credits>('/v1/customer/credits', call),
    requestJson<Analytics>(`/v1/customer/analytics?start_date=${from}&end_date=${to}`, call),
    requestData<StatementMonth[]>('/v1/customer/billing/statements', call),
    kind === 'routing' ? requestData<Key>('/v1/key', call) : null,
  ]);
  return { credits, month, statements, own };
}

export function CreditsPage() {
  const session = useSession();
  const loaded = useLoad('credits', (signal) => loadMoney(session, signal));
  const { data } = loaded;
  return (
    <Page
      title="Credits"
      lead="What there is, what is set aside, and where it went. Months are UTC."
      actions={<Refresh {...loaded} />}
    >
      <Loading of={loaded} what="Counting credits…" />
      {data && <Balance {...data} />}
      {data?.own && <OwnLimit own={data.own} />}
      {data && <ThisMonth {...data} />}
      {data && <Statements months={data.statements} />}
    </Page>
  );
}

function daysLeftText({ credits: { balance, current_period } }: Money): string | undefined {
  const left = daysLeft(balance.available, current_period.total_spend);
  if (left === undefined) return undefined;
  return left > 3_650 ? 'enough for years' : `about ${counted(left, 'day')} at this month’s pace`;
}

function Balance(money: Money) {
  const { balance, current_period, lifetime, credits_per_usd } = money.credits;
  const dollars = (credits: number) => usd(credits / credits_per_usd);
  const requests = counted(current_period.requests, 'request');
  const granted = count(lifetime.granted + lifetime.adjusted);
  return (
    <Tiles>
      <Tile
        name="Available"
        value={count(balance.available)}
        below={[dollars(balance.available), daysLeftText(money)].filter(Boolean).join(', ')}
      />
      <Tile
        name="Held by running requests"
        value={count(balance.held)}
        below={`of ${count(balance.total)} in all`}
      />
      <Tile
        name="Spent this month"
        value={count(current_period.total_spend)}
        below={`${dollars(current_period.total_spend)}, ${requests}`}
      />
      <Tile
        name="Spent since the beginning"
        value={count(lifetime.spent)}
        below={`${dollars(lifetime.spent)}, of ${granted} granted`}
      />
    </Tiles>
  );
}

function OwnLimit({ own }: { readonly own: Key }) {
  const { limit, limit_remaining, limit_reset, limit_resets_at, usage } = own;
  const left = limit_remaining ?? 0;
  const each = limit_reset === null ? '' : ` ${limit_reset}`;
  const again =
    limit_resets_at === null ? '' : `, and all of it again from ${date(limit_resets_at)}`;
  return (
    <Card title="What this key may spend">
      {limit === null ? (
        <p>It has no limit of its own. Spent with it so far: {counted(usage, 'credit')}.</p>
      ) : (
        <>
          <p>
            <b>{count(left)}</b> of {counted(limit, 'credit')}
            {each} {left === 1 ? 'is' : 'are'} left{again}.
          </p>
          <Progress share={limit === 0 ? 1 : 1 - left / limit} label="Spent of its limit" />
        </>
      )}
    </Card>
  );
}

function ThisMonth({ month, credits }: Money) {
  const { current_period } = credits;
  const name = monthName(current_period.start_date.slice(0, 7));
  if (month.summary.total_requests === 0) {
    return (
      <Empty title={`Nothing spent in ${name}`} curl={chatCurl()}>
        <p>The first request of the month shows up here.</p>
      </Empty>
    );
  }
  const spent = {
    name: 'Credits',
    values: month.timeseries.map(({ spend }) => spend),
    total: month.summary.total_spend,
  };
  return (
    <Card title={`Credits spent in ${name}, by day`}>
      <Chart
        label={`Credits spent in ${name}, day by day`}
        days={month.timeseries.map(({ date }) => date)}
        series={[spent]}
        kind="stack"
        format={brief}
      />
      <DescriptionList
        areNumbers
        of={feeEntries.map(([, { sumLabel, sumName }]) => [
          sumLabel,
          count(current_period[sumName]),
        ])}
      />
    </Card>
  );
}

function isUsed(month: StatementMonth): boolean {
  return month.opening_balance + month.granted + Math.abs(month.corrected) + month.charged > 0;
}

function Statements({ months }: { readonly months: readonly StatementMonth[] }) {
  const used = months.filter(isUsed);
  if (used.length === 0) {
    return (
      <Empty title="No statements yet">
        <p>The first credits that the operator grants open the first month.</p>
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
        rows={used}
        rowKey={({ month }) => month}
      />
      <p class="hint">
        Opening, grants, corrections and charges always make the closing balance. A month that is
        over never changes.
      </p>
    </Card>
  );
}

/** Links to the overview of the month, which shows where its charges came from. */
function Month({ month }: { readonly month: string }) {
  const { from, to } = monthOf(`${month}-01`);
  return <a href={addressOf('', { from, to })}>{monthName(month)}</a>;
}

function Statement({ month }: { readonly month: string }) {
  return (
    <Download
      path={`/v1/customer/billing/usage-statement.csv?month=${month}`}
      name={`tollgate-statement-${month}.csv`}
      text="Download CSV"
      of={`of ${monthName(month)}`}
      form="link"
    />
  );
}
