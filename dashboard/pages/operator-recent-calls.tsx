import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count, percentInColumn, span } from '../format.ts';
import type { ProviderHealth } from '../shapes.ts';

interface Called {
  readonly name: string;
  readonly recent: NonNullable<ProviderHealth['recent']>;
}

/** Kinds of failures in words for the operator. */
const reasons: Readonly<Record<string, string>> = {
  credential: 'key refused',
  rate_limited: 'rate limited',
  quota: 'quota used up',
  overloaded: 'overloaded',
  timeout: 'too slow',
  server: 'server errors',
  unreachable: 'unreachable',
  malformed: 'unreadable',
  interrupted: 'interrupted',
};

const columns: readonly Column<Called>[] = [
  { title: 'Provider', isHead: true, cell: ({ name }) => <b>{name}</b> },
  numberColumn('Calls', ({ recent }) => count(recent.calls)),
  numberColumn('Failed', ({ recent }) => count(recent.failed_calls)),
  numberColumn('Share', ({ recent }) =>
    percentInColumn((100 * recent.failed_calls) / recent.calls),
  ),
  { title: 'What went wrong', cell: ({ recent }) => reasonsOf(recent.failures) },
];

function reasonsOf(failures: Readonly<Record<string, number>>): string {
  const most = Object.entries(failures).toSorted(([, a], [, b]) => b - a);
  return most.map(([kind, times]) => `${reasons[kind] ?? kind} ${count(times)}`).join(', ') || '–';
}

/** How the calls to each provider went of late; those that fail most come first. */
export function RecentCalls({ providers }: { readonly providers: readonly ProviderHealth[] }) {
  const called = providers
    .flatMap(({ name, recent }) => (recent ? [{ name, recent }] : []))
    .toSorted((a, b) => b.recent.failed_calls - a.recent.failed_calls);
  const [first] = called;
  if (!first) return null;
  const window = span(Math.max(60, first.recent.window_seconds));
  return (
    <>
      <h3>Calls in the last {window === '1 min' ? 'minute' : window}</h3>
      <Table
        label="Recent calls by provider"
        columns={columns}
        rows={called}
        rowKey={({ name }) => name}
      />
      {called
        .filter(({ recent }) => recent.failures.credential !== undefined)
        .map(({ name }) => (
          <p key={name} class="hint">
            {name} refused a key: <code>tollgate doctor</code> tries yours,{' '}
            <code>providers.{name}.api_key</code>, and says what to set.
          </p>
        ))}
    </>
  );
}
