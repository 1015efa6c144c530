import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { Ago } from '../components/ago.tsx';
import { Changes } from '../components/changes.tsx';
import { Confirm } from '../components/dialog.tsx';
import { Badge, Loading } from '../components/feedback.tsx';
import { documentOf } from '../config-form.ts';
import type { ConfigKind } from '../config-kinds.ts';
import { lastDays } from '../days.ts';
import { differences } from '../json-diff.ts';
import { useLoad } from '../load.ts';
import { urlFor } from '../route.ts';
import { useSession } from '../session.ts';
import type { AuditEntry, AuditPage, ConfigObject } from '../shapes.ts';

interface HistoryProps {
  readonly kind: ConfigKind;
  readonly current: ConfigObject;
  readonly onRestored: () => void;
}

/** The versions of an object, which can be restored. */
export function History(props: HistoryProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Versions</summary>
      {isOpen && <Versions {...props} />}
    </details>
  );
}

/** Before the first release, so that the history is complete. */
const firstDay = '2000-01-01';
const versionsMax = 20;

function Versions({ kind, current, onRestored }: HistoryProps) {
  const { key } = useSession();
  const [restored, setRestored] = useState<AuditEntry>();
  const filter = { action: `${kind.noun}.`, target: current.name };
  const query = new URLSearchParams({
    ...filter,
    start_date: firstDay,
    end_date: lastDays(1).to,
    limit: String(versionsMax),
  });
  const path = `/admin/v1/audit?${query}`;
  const loaded = useLoad(path, (signal) => requestJson<AuditPage>(path, { key, signal }));
  const { data } = loaded;
  return (
    <>
      <Loading loaded={loaded} text="Loading versions…" />
      {data?.data.length === 0 && <p class="hint">Nobody has changed it yet.</p>}
      {data && data.data.length > 0 && (
        <ol class="timeline" aria-label="Versions, latest first">
          {data.data.map((entry, index) => (
            <Version
              key={entry.id}
              entry={entry}
              isCurrent={index === 0 && current.owner === 'store'}
              onRestore={() => setRestored(entry)}
            />
          ))}
        </ol>
      )}
      {data && data.next_before !== null && (
        <p>
          <a href={urlFor('audit', { ...filter, from: firstDay })}>Earlier versions</a>
        </p>
      )}
      {restored && (
        <RestoreVersion
          entry={restored}
          current={current}
          onClose={() => setRestored(undefined)}
          onDone={() => {
            setRestored(undefined);
            onRestored();
          }}
        />
      )}
    </>
  );
}

interface VersionProps {
  readonly entry: AuditEntry;
  readonly isCurrent: boolean;
  readonly onRestore: () => void;
}

function Version({ entry, isCurrent, onRestore }: VersionProps) {
  const { created_at, actor, before, after } = entry;
  return (
    <li class={isCurrent ? 'in_force' : ''}>
      <p class="badges">
        <b>
          <Ago iso={created_at} />
        </b>
        <span>by {actor}</span>
        {isCurrent && <Badge tone="good">current</Badge>}
        {after === null && <Badge tone="bad">deleted</Badge>}
      </p>
      {after !== null && <Changes label="Changes" changes={differences(before, after)} />}
      {!isCurrent && after !== null && (
        <p class="buttons">
          <button type="button" class="secondary small" onClick={onRestore}>
            Go back to this version
          </button>
        </p>
      )}
    </li>
  );
}

interface RestoreProps {
  readonly entry: AuditEntry;
  readonly current: ConfigObject;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function RestoreVersion({ entry, current, onDone, onClose }: RestoreProps) {
  const { key } = useSession();
  const { owner, version } = current;
  const changes = differences(owner === 'store' ? documentOf(current) : null, entry.after);
  return (
    <Confirm
      title={`Restore this version of ${current.name}?`}
      confirmLabel="Restore"
      onClose={onClose}
      work={async () => {
        const headers = owner === 'store' ? { 'if-match': `"${version}"` } : {};
        const path = `/admin/v1/audit/${entry.id}/restore`;
        await requestJson(path, { key, method: 'POST', body: { state: 'after' }, headers });
        onDone();
      }}
    >
      <p>
        {changes.length === 0
          ? 'It is the same as the current version.'
          : 'These fields change. Secrets stay as they are now.'}
      </p>
      <Changes label="What changes" changes={changes} />
    </Confirm>
  );
}
