import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Badge, Loading } from '../components/feedback.tsx';
import { type Column, Table } from '../components/table.tsx';
import { milliseconds, plural } from '../format.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ProviderTest } from '../shapes.ts';

interface ProviderTestProps {
  readonly name: string;
  readonly onClose: () => void;
}

/** Sends a call to a provider with each of its keys, and shows what it answered. */
export function ProviderTestDialog({ name, onClose }: ProviderTestProps) {
  const { key } = useSession();
  const [call, setCall] = useState<'free' | 'one_token'>('free');
  const path = `/admin/v1/providers/${encodeURIComponent(name)}/test`;
  const loaded = useLoad(`${path} ${call}`, (signal) =>
    requestData<ProviderTest>(path, { key, signal, method: 'POST', body: { call } }),
  );
  const { data, busy, reload } = loaded;
  return (
    <Dialog title={`Test ${name}`} onClose={onClose}>
      <Loading loaded={loaded} text={`Calling ${name}…`} />
      {data && <Result test={data} />}
      <footer class="buttons">
        {call === 'free' && (
          <button
            type="button"
            class="secondary"
            disabled={busy}
            onClick={() => setCall('one_token')}
          >
            Generate one token
          </button>
        )}
        <button type="button" class="secondary" disabled={busy} onClick={reload}>
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
