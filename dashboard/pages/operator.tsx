import { requestData } from '../api.ts';
import { Condition, Empty, Loading } from '../components/notes.tsx';
import { Card, Page, Tile, Tiles } from '../components/page.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { brief, bytes, count, counted, milliseconds, span } from '../format.ts';
import { useEvery, useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { Backlog, Circuit, Installation, ProviderHealth } from '../shapes.ts';
import { RecentCalls } from './operator-recent-calls.tsx';
import { TenantSection } from './operator-tenants.tsx';

const pollMs = 5_000;

export function Operator() {
  const { key } = useSession();
  const loaded = useLoad('operator', async (signal) => {
    const call = { key, signal };
    const [overview, books, providers] = await Promise.all([
      requestData<Installation>('/admin/v1/overview', call),
      requestData<Backlog>('/admin/v1/books', call),
      requestData<ProviderHealth[]>('/admin/v1/providers', call),
    ]);
    return { overview, books, providers };
  });
  const { data, reload } = loaded;
  useEvery(pollMs, true, reload);
  return (
    <Page title="Operator" lead="This installation: tenants, credits, providers and the books.">
      <Loading of={loaded} what="Looking around…" />
      {data && <Numbers overview={data.overview} books={data.books} />}
      {data && <Alarm rows={rowsOf(data.providers)} />}
      <TenantSection onChange={reload} />
      {data && <Providers rows={rowsOf(data.providers)} />}
    </Page>
  );
}

interface NumbersProps {
  readonly overview: Installation;
  readonly books: Backlog;
}

function Numbers({ overview, books }: NumbersProps) {
  const { credits, uptime_seconds, version, database } = overview;
  return (
    <Tiles>
      <Tile name="Tenants" value={count(overview.tenants)} below={counted(overview.keys, 'key')} />
      <Tile
        name="Credits in all wallets"
        value={brief(credits.total)}
        exact={counted(credits.total, 'credit')}
        below={`${count(credits.held)} on lease to processes`}
      />
      <Tile name="Running now" value={count(books.running)} below="requests in this process" />
      <Tile
        name="Waiting for the books"
        value={count(books.waiting)}
        below={`settled requests · journal ${bytes(books.journal_bytes)}`}
      />
      <Tile name="Version" value={version} below={`up ${span(uptime_seconds)} · ${database}`} />
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
  { title: 'Its name there', cell: ({ endpoint }) => <code>{endpoint.upstream_model}</code> },
  { title: 'Condition', cell: ({ endpoint }) => <Condition circuit={endpoint.circuit} /> },
  numberColumn('Failures in a row', ({ endpoint }) => count(endpoint.failures_in_a_row)),
  numberColumn('First byte', ({ endpoint: { first_byte_ms } }) =>
    first_byte_ms === null ? '–' : milliseconds(Math.round(first_byte_ms)),
  ),
  numberColumn('Tokens a second', ({ endpoint: { tokens_per_second } }) =>
    tokens_per_second === null ? '–' : count(tokens_per_second),
  ),
];

const severity = { open: 0, half_open: 1, closed: 2 } as const;

function rowsOf(providers: readonly ProviderHealth[]): EndpointRow[] {
  return providers
    .flatMap((provider) => provider.endpoints.map((endpoint) => ({ provider, endpoint })))
    .toSorted((a, b) => severity[a.endpoint.circuit] - severity[b.endpoint.circuit]);
}

function conditionOf(rows: readonly EndpointRow[]): string {
  const [failing, recovering] = [numberOf(rows, 'open'), numberOf(rows, 'half_open')];
  if (failing + recovering === 0) return 'Every endpoint is healthy';
  const parts = [failing > 0 && `${failing} failing`, recovering > 0 && `${recovering} recovering`];
  return `Of ${count(rows.length)} endpoints, ${parts.filter(Boolean).join(' and ')}`;
}

const numberOf = (rows: readonly EndpointRow[], circuit: Circuit) =>
  rows.filter(({ endpoint }) => endpoint.circuit === circuit).length;

/**
 * A warning at the top, because the list of providers is below the list of tenants, which may be
 * long.
 */
function Alarm({ rows }: { readonly rows: readonly EndpointRow[] }) {
  if (numberOf(rows, 'closed') === rows.length) return null;
  return (
    <p class={numberOf(rows, 'open') > 0 ? 'note bad' : 'note'} role="status">
      {conditionOf(rows)}. <a href="#providers">Which ones</a>
    </p>
  );
}

function Providers({ rows }: { readonly rows: readonly EndpointRow[] }) {
  if (rows.length === 0) {
    return (
      <Empty title="No provider is configured" curl="export OPENAI_API_KEY=sk-…; npm start">
        <p>Give the gateway a provider’s key and its models become live.</p>
      </Empty>
    );
  }
  return (
    <Card title="Providers">
      <p id="providers" class="hint">
        {conditionOf(rows)}, as this process sees it.
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
