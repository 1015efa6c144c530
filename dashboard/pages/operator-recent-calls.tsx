import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count, duration, percentInColumn } from '../format.ts';
import type { ProviderHealth } from '../shapes.ts';

interface CalledProvider {
  readonly name: string;
  readonly recent: NonNullable<ProviderHealth['recent']>;
}

/** Display names of failure kinds. */
const failureNames: Readonly<Record<string, string>> = {
  credential: 'key rejected',
  tenant_credential: 'BYOK key rejected',
  rate_limited: 'rate limited',
  quota: 'out of quota',
  overloaded: 'overloaded',
  timeout: 'timed out',
  server: 'server error',
  unreachable: 'unreachable',
  malformed: 'invalid response',
  interrupted: 'interrupted',
};

const columns: readonly Column<CalledProvider>[] = [
  { title: 'Provider', isHead: true, cell: ({ name }) => <b>{name}</b> },
  numberColumn('Calls', ({ recent }) => count(recent.calls)),
  numberColumn('Failed', ({ recent }) => count(recent.failed_calls)),
  numberColumn('Failure rate', ({ recent }) =>
    percentInColumn((100 * recent.failed_calls) / recent.calls),
  ),
  { title: 'Reasons', cell: ({ recent }) => reasonsOf(recent.failures) },
];

export function reasonsOf(failures: Readonly<Record<string, number>>): string {
  const sorted = Object.entries(failures).toSorted(([, a], [, b]) => b - a);
  return (
    sorted.map(([kind, times]) => `${failureNames[kind] ?? kind} ${count(times)}`).join(', ') || '–'
  );
}

/** Lists recent calls and failures by provider, most failures first. */
export function RecentCalls({ providers }: { readonly providers: readonly ProviderHealth[] }) {
  const called = providers
    .flatMap(({ name, recent }) => (recent ? [{ name, recent }] : []))
    .toSorted((a, b) => b.recent.failed_calls - a.recent.failed_calls);
  const [first] = called;
  if (!first) return null;
  const window = duration(Math.max(60, first.recent.window_seconds));
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
            {name} rejected a key. Run <code>tollgate doctor</code> to check{' '}
            <code>providers.{name}.api_key</code>.
          </p>
        ))}
    </>
  );
}
