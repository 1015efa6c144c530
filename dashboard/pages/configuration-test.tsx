import { useEffect, useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Badge, Busy, ErrorNote } from '../components/feedback.tsx';
import { type Column, Table } from '../components/table.tsx';
import { milliseconds, plural } from '../format.ts';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import type { ProviderTest } from '../shapes.ts';

interface ProviderTestProps {
  readonly name: string;
  readonly onClose: () => void;
}

type Call = 'free' | 'one_token';

/** Sends a call to a provider with each of its keys, and shows what it answered. */
export function ProviderTestDialog({ name, onClose }: ProviderTestProps) {
  const { key } = useSession();
  const [call, setCall] = useState<Call>('free');
  const [data, setData] = useState<ProviderTest>();
  const { run, busy, error } = useAction();
  // Not a load, which is repeated when the user returns to the tab: a token may cost something.
  const start = (chosen: Call) =>
    run(async () => {
      setCall(chosen);
      setData(undefined);
      const path = `/admin/v1/providers/${encodeURIComponent(name)}/test`;
      const body = { call: chosen };
      setData(await requestData<ProviderTest>(path, { key, method: 'POST', body }));
    });
  useEffect(() => start('free'), []);
  const again = () => start(call);
  return (
    <Dialog title={`Test ${name}`} onClose={onClose}>
      <ErrorNote message={error} onRetry={again} />
      {busy && <Busy text={`Calling ${name}…`} />}
      {data && <Result test={data} />}
      <footer class="buttons">
        {call === 'free' && (
          <button
            type="button"
            class="secondary"
            disabled={busy}
            onClick={() => start('one_token')}
          >
            Generate one token
          </button>
        )}
        <button type="button" class="secondary" disabled={busy} onClick={again}>
          Test again
        </button>
      </footer>
    </Dialog>
  );
}

const callNames = {
  model_list: 'List of models',
  reachability: 'Connection only',
  one_token: 'One token',
} as const;

const keyColumns: readonly Column<ProviderTest['keys'][number]>[] = [
  { title: 'Key', isHead: true, cell: ({ name }) => <b>{name}</b> },
  { title: 'Result', cell: ({ ok }) => <ResultBadge ok={ok} /> },
  { title: 'Status', cell: ({ status }) => status ?? 'no answer' },
  { title: 'Message', cell: ({ message }) => message },
];

function ResultBadge({ ok }: { readonly ok: boolean }) {
  return <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'works' : 'failed'}</Badge>;
}

function Result({ test }: { readonly test: ProviderTest }) {
  const { ok, call, status, duration_ms, models, model, message, keys } = test;
  const details = [
    callNames[call],
    ...(model === null ? [] : [model]),
    status === null ? 'no answer' : `status ${status}`,
    milliseconds(duration_ms),
    ...(models === null ? [] : [plural(models, 'model')]),
  ];
  return (
    <>
      <p class="badges">
        <ResultBadge ok={ok} />
        <span class="hint">{details.join(' · ')}</span>
      </p>
      <p class={ok ? 'note' : 'note bad'} role="status">
        {message}
      </p>
      {keys.length > 0 && (
        <Table label="Keys" columns={keyColumns} rows={keys} rowKey={(row) => row.name} />
      )}
    </>
  );
}
