import { requestData } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Badge, Loading } from '../components/feedback.tsx';
import { milliseconds, plural } from '../format.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ProviderTest } from '../shapes.ts';

interface ProviderTestProps {
  readonly name: string;
  readonly onClose: () => void;
}

/** Sends a free call to a provider and shows what it answered. */
export function ProviderTestDialog({ name, onClose }: ProviderTestProps) {
  const { key } = useSession();
  const path = `/admin/v1/providers/${encodeURIComponent(name)}/test`;
  const loaded = useLoad(path, (signal) =>
    requestData<ProviderTest>(path, { key, signal, method: 'POST' }),
  );
  const { data, busy, reload } = loaded;
  return (
    <Dialog title={`Test ${name}`} onClose={onClose}>
      <Loading loaded={loaded} text={`Calling ${name}…`} />
      {data && <Result test={data} />}
      <footer class="buttons">
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
} as const;

function Result({
  test: { ok, call, status, duration_ms, models, message },
}: {
  test: ProviderTest;
}) {
  const details = [
    callNames[call],
    status === null ? 'no answer' : `status ${status}`,
    milliseconds(duration_ms),
    ...(models === null ? [] : [plural(models, 'model')]),
  ];
  return (
    <>
      <p class="badges">
        <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'works' : 'failed'}</Badge>
        <span class="hint">{details.join(' · ')}</span>
      </p>
      <p class={ok ? 'note' : 'note bad'} role="status">
        {message}
      </p>
    </>
  );
}
