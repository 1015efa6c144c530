import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Ago } from '../components/ago.tsx';
import { Badge, Empty, Loading, Progress } from '../components/feedback.tsx';
import { Checkbox, TextField } from '../components/field.tsx';
import { keysPerPage } from '../components/key-choice.tsx';
import { Card, Page } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count, date, resetPeriods, time } from '../format.ts';
import { useLoad } from '../load.ts';
import { closeOverlay, offsetOf, openOverlay, setQuery, urlFor, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Key } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { type KeyAction, KeyActionDialog } from './key-actions.tsx';
import { KeyForm } from './key-form.tsx';
import { SecretBox } from './key-secret.tsx';

/** The open dialog: an action and its key. */
type OpenAction = { readonly action: KeyAction; readonly subject: Key } | undefined;

function useKeyPage(keysPath: string) {
  const { key } = useSession();
  const route = useRoute();
  const { query } = route;
  const includeDisabled = query.get('disabled') === '1';
  const search = query.get('search') ?? '';
  const offset = offsetOf(route);
  const params = new URLSearchParams({
    offset: String(offset),
    include_disabled: String(includeDisabled),
  });
  if (search !== '') params.set('search', search);
  const path = `${keysPath}?${params}`;
  const loaded = useLoad(path, (signal) => requestData<Key[]>(path, { key, signal }));
  const isCreating = query.get('create') === '1';
  return { ...loaded, includeDisabled, search, offset, isCreating };
}

interface KeysProps {
  /** The tenant whose keys an operator manages. Tenants manage their own. */
  readonly tenant?: string;
}

export function Keys({ tenant }: KeysProps = {}) {
  const path =
    tenant === undefined ? '/api/v1/keys' : `/admin/v1/tenants/${encodeURIComponent(tenant)}/keys`;
  const page = useKeyPage(path);
  const { data: keys, reload, offset, isCreating } = page;
  const [openAction, setOpenAction] = useState<OpenAction>();
  const [issued, setIssued] = useState<IssuedKey>();
  const done = (key?: IssuedKey) => {
    closeOverlay('create');
    setOpenAction(undefined);
    if (key) setIssued(key);
    reload();
  };
  return (
    <Page
      title={tenant === undefined ? 'Keys' : `Keys of ${tenant}`}
      lead="API keys with their limits and usage in credits."
      actions={
        <>
          {tenant !== undefined && <a href={urlFor('operator')}>All tenants</a>}
          <AddButton text="Create a key" onClick={() => openOverlay({ create: '1' })} />
        </>
      }
      isStale={page.isStale}
    >
      <Filters {...page} />
      <Loading loaded={page} text="Loading keys…" />
      {keys && (
        <KeyList
          path={path}
          keys={keys}
          isFirst={offset === 0}
          isSearch={page.search !== ''}
          onAction={(action, subject) => setOpenAction({ action, subject })}
        />
      )}
      {keys && (
        <Pager
          label="Pages of keys"
          offset={offset}
          perPage={keysPerPage}
          isFull={keys.length === keysPerPage}
        />
      )}
      {isCreating && <KeyForm path={path} onDone={done} onClose={() => closeOverlay('create')} />}
      {openAction && (
        <KeyActionDialog
          {...openAction}
          path={path}
          onDone={done}
          onClose={() => setOpenAction(undefined)}
        />
      )}
      {issued && <SecretBox issued={issued} onClose={() => setIssued(undefined)} />}
    </Page>
  );
}

type FiltersProps = Pick<ReturnType<typeof useKeyPage>, 'search' | 'includeDisabled'>;

function Filters({ search, includeDisabled }: FiltersProps) {
  return (
    <div class="toolbar">
      <TextField
        label="Search"
        type="search"
        placeholder="Name, label, or ID"
        value={search}
        onValue={(text) => setQuery({ search: text, offset: null }, 'replace')}
      />
      <Checkbox
        label="Show disabled keys"
        checked={includeDisabled}
        onChange={(on) => setQuery({ disabled: on ? '1' : null, offset: null })}
      />
    </div>
  );
}

interface KeyListProps {
  readonly path: string;
  readonly keys: readonly Key[];
  readonly isFirst: boolean;
  readonly isSearch: boolean;
  readonly onAction: (action: KeyAction, key: Key) => void;
}

function KeyList({ path, keys, isFirst, isSearch, onAction }: KeyListProps) {
  const { kind, keyObject: ownKey } = useSession();
  if (keys.length === 0 && !isFirst) return <Empty title="No more keys" />;
  if (keys.length === 0 && isSearch) {
    return (
      <Empty title="No matching keys">
        <p>Try a shorter part of the name, or include disabled keys.</p>
      </Empty>
    );
  }
  if (keys.length === 0) {
    const variable = kind === 'admin' ? '$TOLLGATE_ADMIN_TOKEN' : '$TOLLGATE_MANAGEMENT_KEY';
    const command = curl('POST', path, { name: 'my app' }, variable);
    return <Empty title="No keys yet" curl={command} />;
  }
  const columns: Column<Key>[] = [
    {
      title: 'Key',
      isHead: true,
      cell: (key) => <Name keyObject={key} isOwn={key.id === ownKey?.id} />,
    },
    { title: 'Limit', cell: (key) => <Limit keyObject={key} /> },
    numberColumn('Today', (key) => count(key.usage_daily)),
    numberColumn('Month', (key) => count(key.usage_monthly)),
    numberColumn('Total', (key) => <b>{count(key.usage)}</b>),
    { title: 'Last used', cell: (key) => <LastUsed keyObject={key} /> },
    {
      title: 'Actions',
      cell: (key) => <RowActions keyObject={key} onAction={(action) => onAction(action, key)} />,
    },
  ];
  return (
    <Card>
      <Table label="Keys" columns={columns} rows={keys} rowKey={({ id }) => id} />
    </Card>
  );
}

function Name({ keyObject, isOwn }: { readonly keyObject: Key; readonly isOwn: boolean }) {
  const mayReadLogs = useSession().kind !== 'admin';
  const { id, name, label, disabled, expires_at } = keyObject;
  const isExpired = expires_at !== null && Date.parse(expires_at) < Date.now();
  return (
    <span class="two-lines">
      <span>
        {mayReadLogs ? <a href={urlFor('logs', { key: id })}>{name || id}</a> : name || id}{' '}
        {label.startsWith('sk-mgmt-') && <Badge tone="accent">management</Badge>}{' '}
        {isOwn && <Badge>your key</Badge>} {disabled && <Badge tone="warn">disabled</Badge>}{' '}
        {isExpired && <Badge tone="warn">expired</Badge>}
      </span>
      <small>
        <code>{label}</code>
      </small>
    </span>
  );
}

function LastUsed({ keyObject }: { readonly keyObject: Key }) {
  const { last_used_at, expires_at } = keyObject;
  return (
    <span class="two-lines">
      <Ago iso={last_used_at} />
      {expires_at !== null && (
        <small class="one-line" title={`${time(expires_at)} UTC`}>
          expires {date(expires_at)}
        </small>
      )}
    </span>
  );
}

/** Shows the actual spend, which exceeds the limit if the limit was lowered later. */
function Limit({ keyObject }: { readonly keyObject: Key }) {
  const { limit, limit_reset, limit_resets_at, usage } = keyObject;
  if (limit === null) return <span class="hint">none</span>;
  const spent = limit_reset === null ? usage : keyObject[`usage_${limit_reset}`];
  const period = limit_reset === null ? '' : resetPeriods[limit_reset];
  const text = `${count(spent)} of ${count(limit)} spent${period}`;
  return (
    <span class="two-lines">
      <Progress share={limit === 0 ? 1 : spent / limit} label={`${text}, in credits`} />
      <small>{text}</small>
      {limit_resets_at && <small>resets on {date(limit_resets_at)}</small>}
      {spent >= limit && <Badge tone="bad">used up</Badge>}
    </span>
  );
}

interface RowActionsProps {
  readonly keyObject: Key;
  readonly onAction: (action: KeyAction) => void;
}

function RowActions({ keyObject, onAction }: RowActionsProps) {
  const actions: [KeyAction, string][] = [
    ['edit', 'Edit'],
    ['rotate', 'Rotate'],
    keyObject.disabled ? ['enable', 'Enable'] : ['disable', 'Disable'],
    ['delete', 'Delete'],
  ];
  const name = keyObject.name || keyObject.label;
  return (
    <span class="row-actions">
      {actions.map(([action, text]) => (
        <RowAction
          key={action}
          text={text}
          label={`${text} ${name}`}
          onClick={() => onAction(action)}
        />
      ))}
    </span>
  );
}
