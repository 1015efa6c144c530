import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { Download } from '../components/download.tsx';
import { Badge, Empty, Loading } from '../components/feedback.tsx';
import { CommittedTextField, SelectField, TextField } from '../components/field.tsx';
import { KeyChoice, useKeyNames } from '../components/key-choice.tsx';
import { Card, Page } from '../components/page.tsx';
import { RangePicker } from '../components/range.tsx';
import { Refresh } from '../components/refresh.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { rangeOf } from '../days.ts';
import { count, milliseconds, shortTime } from '../format.ts';
import { useLoad } from '../load.ts';
import { goToOffset, offsetOf, openOverlay, setQuery, urlFor, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { LogPage, LogRow } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';
import { ReceiptSheet } from './receipt.tsx';

const rowsPerPage = 50;

function useFilter() {
  const route = useRoute();
  const text = (name: string) => route.query.get(name) ?? '';
  return {
    range: rangeOf(route, 30),
    status: text('status'),
    model: text('model'),
    keyId: text('key'),
    offset: offsetOf(route),
    request: text('request'),
  };
}

type Filter = ReturnType<typeof useFilter>;

function queryOf({ range, status, model, keyId }: Filter): URLSearchParams {
  const query = new URLSearchParams({ start_date: range.from, end_date: range.to });
  if (status !== '') query.set('status', status);
  if (model !== '') query.set('model', model);
  if (keyId !== '') query.set('api_key_id', keyId);
  return query;
}

export function Logs() {
  const { key } = useSession();
  const filter = useFilter();
  const query = queryOf(filter);
  query.set('limit', String(rowsPerPage));
  query.set('offset', String(filter.offset));
  const path = `/v1/customer/logs?${query}`;
  const loaded = useLoad(path, (signal) => requestJson<LogPage>(path, { key, signal }));
  const { data, reload } = loaded;
  const csv = `/v1/customer/logs/export.csv?${queryOf(filter)}`;
  return (
    <Page
      title="Logs"
      lead="All requests, newest first, with times in UTC. Open a request to see its receipt."
      actions={
        <>
          <Download path={csv} name="tollgate-logs.csv" text="Export CSV" />
          <Refresh {...loaded} />
        </>
      }
      isStale={loaded.isStale}
    >
      <Filters filter={filter} models={[...new Set(data?.logs.map(({ model }) => model))]} />
      <Loading loaded={loaded} text="Loading requests…" />
      {data && <Rows page={data} reload={reload} />}
      {filter.request !== '' && <ReceiptSheet id={filter.request} />}
    </Page>
  );
}

const statuses = [
  ['', 'All'],
  ['success', 'Success'],
  ['error', 'Error'],
] as const;

interface FiltersProps {
  readonly filter: Filter;
  /** The models on this page, as suggestions. */
  readonly models: readonly string[];
}

function Filters({ filter, models }: FiltersProps) {
  const set = (name: string) => (value: string) =>
    setQuery({ [name]: value, offset: null }, 'replace');
  const [id, setId] = useState('');
  const findById = (typed: string) => {
    setId(typed);
    const request = requestIdIn(typed);
    if (request !== undefined) openOverlay({ request });
  };
  return (
    <>
      <div class="toolbar">
        <RangePicker range={filter.range} />
        <SelectField
          label="Status"
          value={filter.status}
          onValue={set('status')}
          options={statuses}
        />
        <CommittedTextField
          label="Model"
          type="search"
          placeholder="All models"
          value={filter.model}
          onValue={set('model')}
          suggestions={models}
        />
        <KeyChoice value={filter.keyId} onValue={set('key')} />
        <TextField
          label="Request ID"
          type="search"
          placeholder="Opens the receipt"
          value={id}
          onValue={findById}
        />
      </div>
      {id.trim() !== '' && requestIdIn(id) === undefined && (
        <p class="note" role="status">
          This isn't a complete request ID. Paste the full x-request-id, or the full id in the
          response body.
        </p>
      )}
    </>
  );
}

/**
 * Returns the request ID in a pasted ID. The IDs in response bodies and log exports are request IDs
 * with a prefix and without hyphens.
 */
function requestIdIn(text: string): string | undefined {
  const hex = text
    .trim()
    .replace(/^(chatcmpl-|msg_|resp_|log_)/, '')
    .replaceAll('-', '')
    .toLowerCase();
  const parts = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/.exec(hex);
  return parts?.slice(1).join('-');
}

const openReceipt = (row: LogRow) => openOverlay({ request: row.request_id });

/** The key's name doesn't widen the column, because names load later and may be long. */
const timeColumn = (names: ReadonlyMap<string, string>): Column<LogRow> => ({
  title: 'Time (UTC) and key',
  isHead: true,
  cell: (row) => {
    const name = names.get(row.api_key_id) ?? row.api_key_id;
    return (
      <span class="two-lines">
        <button type="button" class="link one-line" onClick={() => openReceipt(row)}>
          {shortTime(row.created_at)}
        </button>
        <small class="key-name" title={name} dir="auto">
          {name}
        </small>
      </span>
    );
  },
});

/** Shows why the request failed or was free. */
function Reason({ row: { error, cost, billing_note } }: { readonly row: LogRow }) {
  if (error !== null) return <small title={error}>{error.replaceAll('_', ' ')}</small>;
  if (cost > 0 || !billing_note) return null;
  return <small title={billing_note}>{billing_note.split(';')[0]}</small>;
}

const columns: readonly Column<LogRow>[] = [
  {
    title: 'Model and provider',
    cell: (row) => (
      <span class="two-lines">
        <code>{row.model || '–'}</code>
        <small>
          {row.provider || 'no provider'}
          {row.traffic_mode === 'byok' && ' (BYOK)'}
        </small>
      </span>
    ),
  },
  {
    title: 'Status',
    cell: (row) => (
      <span class="two-lines">
        <Badge tone={row.status === 'success' ? 'good' : 'bad'}>{row.status}</Badge>
        <Reason row={row} />
      </span>
    ),
  },
  numberColumn(
    'Tokens in → out',
    ({ tokens }) => `${count(tokens.prompt)} → ${count(tokens.completion)}`,
  ),
  numberColumn('Duration', (row) => milliseconds(row.latency_ms)),
  numberColumn('Credits', (row) => <b>{count(row.cost)}</b>),
];

interface RowsProps {
  readonly page: LogPage;
  readonly reload: () => void;
}

function Rows({ page, reload }: RowsProps) {
  const names = useKeyNames();
  const { query } = useRoute();
  const { total, offset, has_more } = page.pagination;
  if (total === 0 && query.size === 0) {
    return (
      <Empty title="No requests in the last 30 days" curl={chatCurl()} reload={reload}>
        <p>Send a request. It appears here when it completes.</p>
      </Empty>
    );
  }
  if (total === 0) {
    return (
      <Empty title="No matching requests" curl={chatCurl()} reload={reload}>
        <p>
          <a href={urlFor('logs')}>Show all requests of the last 30 days</a>, or send a request. It
          appears here when it completes.
        </p>
      </Empty>
    );
  }
  const end = offset + page.logs.length;
  return (
    <Card>
      <Table
        label="Requests"
        columns={[timeColumn(names), ...columns]}
        rows={page.logs}
        rowKey={(row) => row.request_id}
        onRow={openReceipt}
      />
      <nav class="pager" aria-label="Log pages">
        <span>
          {end === offset ? 'After the last of' : `${count(offset + 1)} to ${count(end)} of`}{' '}
          {count(total)}
        </span>
        <div class="buttons">
          <button
            type="button"
            class="secondary"
            disabled={offset === 0}
            onClick={() => goToOffset(Math.max(0, Math.min(offset, total) - rowsPerPage))}
          >
            Newer
          </button>
          <button
            type="button"
            class="secondary"
            disabled={!has_more}
            onClick={() => goToOffset(offset + rowsPerPage)}
          >
            Older
          </button>
        </div>
      </nav>
    </Card>
  );
}
