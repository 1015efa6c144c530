import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Ago } from '../components/ago.tsx';
import { TextField, Tick } from '../components/field.tsx';
import { keysPerPage } from '../components/key-choice.tsx';
import { Badge, Empty, Loading, Progress } from '../components/notes.tsx';
import { Card, Page } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { Verb } from '../components/verb.tsx';
import { count, date, time } from '../format.ts';
import { useLoad } from '../load.ts';
import { addressOf, choose, closeOverlay, offsetOf, openOverlay, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Key } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { type KeyVerb, KeyVerbs } from './key-actions.tsx';
import { KeyForm } from './key-form.tsx';
import { SecretBox } from './key-secret.tsx';

/** The dialog that is open: an action and its key. */
type Doing = { readonly verb: KeyVerb; readonly subject: Key } | undefined;

function useKeyPage() {
  const { key } = useSession();
  const route = useRoute();
  const { query } = route;
  const all = query.get('disabled') === '1';
  const search = query.get('search') ?? '';
  const offset = offsetOf(route);
  const params = new URLSearchParams({ offset: String(offset), include_disabled: String(all) });
  if (search !== '') params.set('search', search);
  const path = `/api/v1/keys?${params}`;
  const loaded = useLoad(path, (signal) => requestData<Key[]>(path, { key, signal }));
  return { ...loaded, all, search, offset, isCreating: query.get('create') === '1' };
}

export function Keys() {
  const page = useKeyPage();
  const { data: keys, reload, offset, isCreating } = page;
  const [doing, setDoing] = useState<Doing>();
  const [issued, setIssued] = useState<IssuedKey>();
  const done = (key?: IssuedKey) => {
    closeOverlay('create');
    setDoing(undefined);
    if (key) setIssued(key);
    reload();
  };
  return (
    <Page
      title="Keys"
      lead="What applications call with, what they may spend, and what they spent, in credits."
      actions={<AddButton text="Create a key" onClick={() => openOverlay({ create: '1' })} />}
      isStale={page.isStale}
    >
      <Filters {...page} />
      <Loading of={page} what="Fetching the keys…" />
      {keys && (
        <KeyList
          keys={keys}
          isFirst={offset === 0}
          isSearch={page.search !== ''}
          onVerb={(verb, subject) => setDoing({ verb, subject })}
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
      {isCreating && <KeyForm onDone={done} onClose={() => closeOverlay('create')} />}
      {doing && <KeyVerbs {...doing} onDone={done} onClose={() => setDoing(undefined)} />}
      {issued && <SecretBox issued={issued} onClose={() => setIssued(undefined)} />}
    </Page>
  );
}

type FiltersProps = Pick<ReturnType<typeof useKeyPage>, 'search' | 'all'>;

function Filters({ search, all }: FiltersProps) {
  return (
    <div class="toolbar">
      <TextField
        label="Search"
        type="search"
        placeholder="Name, label or id"
        value={search}
        onValue={(text) => choose({ search: text, offset: null }, 'replace')}
      />
      <Tick
        label="Show disabled keys"
        checked={all}
        onTick={(on) => choose({ disabled: on ? '1' : null, offset: null })}
      />
    </div>
  );
}

interface KeyListProps {
  readonly keys: readonly Key[];
  readonly isFirst: boolean;
  readonly isSearch: boolean;
  readonly onVerb: (verb: KeyVerb, key: Key) => void;
}

function KeyList({ keys, isFirst, isSearch, onVerb }: KeyListProps) {
  const { about } = useSession();
  if (keys.length === 0 && !isFirst) return <Empty title="No more keys" />;
  if (keys.length === 0 && isSearch) {
    return (
      <Empty title="No key matches">
        <p>Try a shorter part of the name, or look among the disabled ones too.</p>
      </Empty>
    );
  }
  if (keys.length === 0) {
    const line = curl('POST', '/api/v1/keys', { name: 'my app' }, '$TOLLGATE_MANAGEMENT_KEY');
    return <Empty title="No keys yet" curl={line} />;
  }
  const columns: Column<Key>[] = [
    {
      title: 'Key',
      isHead: true,
      cell: (key) => <Name keyObject={key} isOwn={key.id === about?.id} />,
    },
    { title: 'Limit', cell: (key) => <Limit keyObject={key} /> },
    numberColumn('Today', (key) => count(key.usage_daily)),
    numberColumn('Month', (key) => count(key.usage_monthly)),
    numberColumn('In all', (key) => <b>{count(key.usage)}</b>),
    { title: 'Last used', cell: (key) => <LastUse keyObject={key} /> },
    {
      title: 'Actions',
      cell: (key) => <Verbs keyObject={key} onVerb={(verb) => onVerb(verb, key)} />,
    },
  ];
  return (
    <Card>
      <Table label="Keys" columns={columns} rows={keys} rowKey={({ id }) => id} />
    </Card>
  );
}

function Name({ keyObject, isOwn }: { readonly keyObject: Key; readonly isOwn: boolean }) {
  const { id, name, label, disabled, expires_at } = keyObject;
  const isOver = expires_at !== null && Date.parse(expires_at) < Date.now();
  return (
    <span class="two-lines">
      <span>
        <a href={addressOf('logs', { key: id })}>{name || id}</a>{' '}
        {label.startsWith('sk-mgmt-') && <Badge tone="accent">management</Badge>}{' '}
        {isOwn && <Badge>this one</Badge>} {disabled && <Badge tone="warn">disabled</Badge>}{' '}
        {isOver && <Badge tone="warn">expired</Badge>}
      </span>
      <small>
        <code>{label}</code>
      </small>
    </span>
  );
}

function LastUse({ keyObject }: { readonly keyObject: Key }) {
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

const since = { daily: ' today', weekly: ' this week', monthly: ' this month' } as const;

/**
 * Shows what was spent, not limit minus rest: more may have been spent before the limit was
 * lowered.
 */
function Limit({ keyObject }: { readonly keyObject: Key }) {
  const { limit, limit_reset, limit_resets_at, usage } = keyObject;
  if (limit === null) return <span class="hint">none</span>;
  const spent = limit_reset === null ? usage : keyObject[`usage_${limit_reset}`];
  const when = limit_reset === null ? '' : since[limit_reset];
  const text = `${count(spent)} of ${count(limit)} spent${when}`;
  return (
    <span class="two-lines">
      <Progress share={limit === 0 ? 1 : spent / limit} label={`${text}, in credits`} />
      <small>{text}</small>
      {limit_resets_at && <small>starts again on {date(limit_resets_at)}</small>}
      {spent >= limit && <Badge tone="bad">used up</Badge>}
    </span>
  );
}

interface VerbsProps {
  readonly keyObject: Key;
  readonly onVerb: (verb: KeyVerb) => void;
}

function Verbs({ keyObject, onVerb }: VerbsProps) {
  const verbs: [KeyVerb, string][] = [
    ['edit', 'Edit'],
    ['rotate', 'Rotate'],
    keyObject.disabled ? ['enable', 'Enable'] : ['disable', 'Disable'],
    ['delete', 'Delete'],
  ];
  const of = keyObject.name || keyObject.label;
  return (
    <span class="verbs">
      {verbs.map(([verb, text]) => (
        <Verb key={verb} text={text} label={`${text} ${of}`} onClick={() => onVerb(verb)} />
      ))}
    </span>
  );
}
