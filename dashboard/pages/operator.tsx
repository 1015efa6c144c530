import { requestData } from '../api.ts';
import { CircuitState, Empty, Loading } from '../components/feedback.tsx';
import { Card, Page, Tile, Tiles } from '../components/page.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { brief, bytes, count, duration, milliseconds, plural } from '../format.ts';
import { useInterval, useLoad } from '../load.ts';
import { useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Backlog, Circuit, Overview, ProviderHealth } from '../shapes.ts';
import { Keys } from './keys.tsx';
import { RecentCalls } from './operator-recent-calls.tsx';
import { TenantSection } from './operator-tenants.tsx';

const pollMs = 5_000;

/** The installation, or the keys of one tenant. */
export function Operator() {
  const tenant = useRoute().query.get('tenant');
  return tenant === null ? <Installation /> : <Keys key={tenant} tenant={tenant} />;
}

function Installation() {
  const { key } = useSession();
  const loaded = useLoad('operator', async (signal) => {
    const call = { key, signal };
    const [overview, backlog, providers] = await Promise.all([
      requestData<Overview>('/admin/v1/overview', call),
      requestData<Backlog>('/admin/v1/accounting', call),
      requestData<ProviderHealth[]>('/admin/v1/providers', call),
    ]);
    return { overview, backlog, providers };
  });
  const { data, reload } = loaded;
  useInterval(pollMs, true, reload);
  return (
    <Page
      title="Operator"
      lead="Tenants, credits, providers, and accounting for this installation."
    >
      <Loading loaded={loaded} text="Loading the overview…" />
      {data && <Numbers overview={data.overview} backlog={data.backlog} />}
      {data && <HealthWarning rows={rowsOf(data.providers)} />}
      <TenantSection onChange={reload} />
      {data && <Providers rows={rowsOf(data.providers)} />}
    </Page>
  );
}

interface NumbersProps {
  readonly overview: Overview;
  readonly backlog: Backlog;
}

function Numbers({ overview, backlog }: NumbersProps) {
  const { credits, uptime_seconds, version, database } = overview;
  return (
    <Tiles>
      <Tile name="Tenants" value={count(overview.tenants)} below={plural(overview.keys, 'key')} />
      <Tile
        name="Credits in all wallets"
        value={brief(credits.total)}
        exact={plural(credits.total, 'credit')}
        below={`${count(credits.held)} held by requests · ${count(credits.leased)} leased`}
      />
      <Tile name="Running requests" value={count(backlog.running)} below="in this process" />
      <Tile
        name="Unbooked requests"
        value={count(backlog.waiting)}
        below={`not in the ledger yet · ${bytes(backlog.journal_bytes)} in the journal`}
      />
      <Tile name="Version" value={version} below={`up ${duration(uptime_seconds)} · ${database}`} />
    </Tiles>
  );
}

interface EndpointRow {
  readonly provider: ProviderHealth;
  readonly endpoint: ProviderHealth['endpoints'][number];
}

const columns: readonly Column<EndpointRow>[] = [
  { title: 'Provider', isHead: true, cell: ({ provider }) => <b>{provider.name}</b> },
  { title: 'Model', cell: ({ endpoint }) => <code>{endpoint.model}</code> },
  { title: 'Upstream model', cell: ({ endpoint }) => <code>{endpoint.upstream_model}</code> },
  { title: 'Status', cell: ({ endpoint }) => <CircuitState circuit={endpoint.circuit} /> },
  numberColumn('Failures in a row', ({ endpoint }) => count(endpoint.failures_in_a_row)),
  numberColumn('First byte', ({ endpoint: { first_byte_ms } }) =>
    first_byte_ms === null ? '–' : milliseconds(Math.round(first_byte_ms)),
  ),
  numberColumn('Tokens/s', ({ endpoint: { tokens_per_second } }) =>
    tokens_per_second === null ? '–' : count(tokens_per_second),
  ),
];

const severity = { open: 0, half_open: 1, closed: 2 } as const;

function rowsOf(providers: readonly ProviderHealth[]): EndpointRow[] {
  return providers
    .flatMap((provider) => provider.endpoints.map((endpoint) => ({ provider, endpoint })))
    .toSorted((a, b) => severity[a.endpoint.circuit] - severity[b.endpoint.circuit]);
}

function healthSummary(rows: readonly EndpointRow[]): string {
  const [failing, recovering] = [countIn(rows, 'open'), countIn(rows, 'half_open')];
  if (failing + recovering === 0) return 'All endpoints are healthy';
  const total = plural(rows.length, 'endpoint');
  if (failing === 0) return `${recovering} of ${total} ${isOrAre(recovering)} recovering`;
  const also = recovering > 0 ? ` and ${recovering} ${isOrAre(recovering)} recovering` : '';
  return `${failing} of ${total} ${isOrAre(failing)} failing${also}`;
}

const isOrAre = (number: number) => (number === 1 ? 'is' : 'are');

const countIn = (rows: readonly EndpointRow[], circuit: Circuit) =>
  rows.filter(({ endpoint }) => endpoint.circuit === circuit).length;

/** Warns above the list of tenants, because the providers below it may be out of view. */
function HealthWarning({ rows }: { readonly rows: readonly EndpointRow[] }) {
  if (countIn(rows, 'closed') === rows.length) return null;
  return (
    <p class={countIn(rows, 'open') > 0 ? 'note bad' : 'note'} role="status">
      {healthSummary(rows)}. <a href="#providers">Show endpoints</a>
    </p>
  );
}

function Providers({ rows }: { readonly rows: readonly EndpointRow[] }) {
  if (rows.length === 0) {
    return (
      <Empty title="No providers configured" curl="export OPENAI_API_KEY=sk-…; npm start">
        <p>Set a provider's key to make its models available.</p>
      </Empty>
    );
  }
  return (
    <Card title="Providers">
      <p id="providers" class="hint">
        {healthSummary(rows)}, as seen by this process.
      </p>
      <RecentCalls providers={[...new Set(rows.map(({ provider }) => provider))]} />
      <h3>Endpoints</h3>
      <Table
        label="Providers and their endpoints"
        columns={columns}
        rows={rows}
        rowKey={({ provider, endpoint }) =>
          `${provider.name} ${endpoint.model} ${endpoint.upstream_model}`
        }
      />
    </Card>
  );
}
