import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { Confirm } from '../components/dialog.tsx';
import { configKinds } from '../config-kinds.ts';
import { useSession } from '../session.ts';
import type { AuditEntry } from '../shapes.ts';

interface RestoreProps {
  readonly entry: AuditEntry;
  readonly onDone: () => void;
}

/** Returns an object of the configuration to a state in the audit log. */
export function Restore({ entry, onDone }: RestoreProps) {
  const { key } = useSession();
  const [state, setState] = useState<'before' | 'after'>();
  const { id, action, target } = entry;
  if (!Object.values(configKinds).some(({ noun }) => action.startsWith(`${noun}.`))) return null;
  return (
    <div class="buttons">
      <button type="button" class="secondary" onClick={() => setState('before')}>
        Restore the state before
      </button>
      <button type="button" class="secondary" onClick={() => setState('after')}>
        Restore the state after
      </button>
      {state && (
        <Confirm
          title={`Restore ${target}?`}
          confirmLabel={entry[state] === null ? 'Delete' : 'Restore'}
          onClose={() => setState(undefined)}
          work={async () => {
            const path = `/admin/v1/audit/${id}/restore`;
            await requestJson(path, { key, method: 'POST', body: { state } });
            onDone();
          }}
        >
          <p>
            {entry[state] === null
              ? `${target} did not exist ${state} this change, so it will be deleted.`
              : `${target} gets the state ${state} this change. Its secrets stay as they are now.`}
          </p>
        </Confirm>
      )}
    </div>
  );
}
