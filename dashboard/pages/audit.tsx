import { requestJson } from '../api.ts';
import { Changes } from '../components/changes.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Download } from '../components/download.tsx';
import { Empty, Loading } from '../components/feedback.tsx';
import { CommittedTextField, SelectField } from '../components/field.tsx';
import { Card, DescriptionList, Page } from '../components/page.tsx';
import { RangePicker } from '../components/range.tsx';
import { Refresh } from '../components/refresh.tsx';
import { type Column, Table } from '../components/table.tsx';
import { rangeOf } from '../days.ts';
import { plural, shortTime, time } from '../format.ts';
import { type Difference, differences } from '../json-diff.ts';
import { useLoad } from '../load.ts';
import { closeOverlay, openOverlay, type Route, setQuery, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { AuditEntry, AuditPage } from '../shapes.ts';
import { Restore } from './audit-restore.tsx';

const defaultDays = 90;
const filterNames = ['action', 'actor', 'tenant_id', 'target'] as const;

/** Returns the API's query for the filters in the URL. */
function apiQueryOf(route: Route): URLSearchParams {
  const { from, to } = rangeOf(route, defaultDays);
  const query = new URLSearchParams({ start_date: from, end_date: to });
  for (const name of filterNames) {
    const value = route.query.get(name);
    if (value !== null) query.set(name, value);
  }
  return query;
}

/** Who changed what, with the states before and after. */
export function Audit() {
  const { key } = useSession();
  const route = useRoute();
  const filter = apiQueryOf(route);
  const before = route.query.get('before');
  const page = new URLSearchParams(filter);
  if (before !== null) page.set('before', before);
  const path = `/admin/v1/audit?${page}`;
  const loaded = useLoad(path, (signal) => requestJson<AuditPage>(path, { key, signal }));
  const { data } = loaded;
  const open = data?.data.find(({ id }) => String(id) === route.query.get('entry'));
  return (
    <Page
      title="Audit log"
      lead="Who changed the configuration, tenants, keys, and credits."
      actions={
        <>
          <Download
            path={`/admin/v1/audit/export.csv?${filter}`}
            name="tollgate-audit.csv"
            text="Export CSV"
          />
          <Refresh {...loaded} />
        </>
      }
      isStale={loaded.isStale}
    >
      <Filters route={route} />
      <Loading loaded={loaded} text="Loading the audit log…" />
      {data && data.data.length === 0 && <Empty title="No changes in this selection" />}
      {data && data.data.length > 0 && <Entries page={data} before={before} />}
      {open && (
        <EntrySheet
          entry={open}
          onRestored={() => {
            closeOverlay('entry');
            loaded.reload();
          }}
        />
      )}
    </Page>
  );
}

const subjects = [
  ['', 'All'],
  ['provider.', 'Providers'],
  ['model.', 'Models'],
  ['alias.', 'Aliases'],
  ['price.', 'Prices'],
  ['plan.', 'Plans'],
  ['setting.', 'Settings'],
  ['tenant.', 'Tenants'],
  ['key.', 'Keys'],
  ['provider_key.', 'Provider keys'],
  ['credits.', 'Credits'],
] as const;

function Filters({ route }: { readonly route: Route }) {
  const set = (name: string) => (value: string) =>
    setQuery({ [name]: value, before: null, entry: null }, 'replace');
  const text = (name: (typeof filterNames)[number], label: string) => (
    <CommittedTextField
      label={label}
      type="search"
      placeholder="All"
      value={route.query.get(name) ?? ''}
      onValue={set(name)}
    />
  );
  return (
    <div class="toolbar">
      <RangePicker range={rangeOf(route, defaultDays)} />
      <SelectField
        label="Changes of"
        value={route.query.get('action') ?? ''}
        onValue={set('action')}
        options={subjects}
      />
      {text('target', 'Name or ID')}
      {text('actor', 'Changed by')}
      {text('tenant_id', 'Tenant ID')}
    </div>
  );
}

const openEntry = ({ id }: AuditEntry) => openOverlay({ entry: String(id) });

const columns: readonly Column<AuditEntry>[] = [
  {
    title: 'Time (UTC)',
    isHead: true,
    cell: (entry) => (
      <button type="button" class="link one-line" onClick={() => openEntry(entry)}>
        {shortTime(entry.created_at)}
      </button>
    ),
  },
  { title: 'Action', cell: ({ action }) => <code>{action}</code> },
  {
    title: 'Changed',
    cell: ({ target, tenant_id }) => (
      <span class="two-lines">
        <b>{target}</b>
        {tenant_id !== null && tenant_id !== target && <small>{tenant_id}</small>}
      </span>
    ),
  },
  { title: 'Fields', cell: (entry) => summaryOf(differences(entry.before, entry.after)) },
  {
    title: 'By',
    cell: ({ actor, origin, address }) => (
      <span class="two-lines">
        <span>{actor}</span>
        <small>{address ?? origin}</small>
      </span>
    ),
  },
];

const shownFields = 2;

function summaryOf(changes: readonly Difference[]): string {
  const names = changes.slice(0, shownFields).map(({ path }) => path || 'value');
  const more = changes.length - names.length;
  return [...names, ...(more > 0 ? [`${more} more`] : [])].join(', ') || '–';
}

interface EntriesProps {
  readonly page: AuditPage;
  readonly before: string | null;
}

function Entries({ page: { data, next_before }, before }: EntriesProps) {
  const goTo = (id: number | null) => {
    setQuery({ before: id === null ? null : String(id) });
    scrollTo(0, 0);
  };
  return (
    <Card>
      <Table
        label="Changes"
        columns={columns}
        rows={data}
        rowKey={({ id }) => String(id)}
        onRow={openEntry}
      />
      {(before !== null || next_before !== null) && (
        <nav class="pager buttons" aria-label="Pages of changes">
          <button
            type="button"
            class="secondary"
            disabled={before === null}
            onClick={() => goTo(null)}
          >
            Newest
          </button>
          <button
            type="button"
            class="secondary"
            disabled={next_before === null}
            onClick={() => goTo(next_before)}
          >
            Older
          </button>
        </nav>
      )}
    </Card>
  );
}

const origins = { http: 'API', cli: 'command line', signal: 'signal', start: 'startup' } as const;

interface EntryProps {
  readonly entry: AuditEntry;
  readonly onRestored: () => void;
}

function EntrySheet({ entry, onRestored }: EntryProps) {
  const { action, target, actor, origin, address, request_id, tenant_id, created_at } = entry;
  const changes = differences(entry.before, entry.after);
  const details: [string, string][] = [
    ['Time (UTC)', time(created_at)],
    ['Changed by', actor],
    ['Through', origins[origin]],
    ...(address === null ? [] : [['Address', address] as [string, string]]),
    ...(tenant_id === null ? [] : [['Tenant', tenant_id] as [string, string]]),
    ...(request_id === null ? [] : [['Request ID', request_id] as [string, string]]),
  ];
  return (
    <Dialog title={`${action} ${target}`} variant="sheet" onClose={() => closeOverlay('entry')}>
      <DescriptionList items={details} />
      <h3>{plural(changes.length, 'field')} changed</h3>
      <Changes label="Changes" changes={changes} />
      <Restore entry={entry} onDone={onRestored} />
    </Dialog>
  );
}
