import { useState } from 'preact/hooks';
import { requestData, requestJson } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Confirm } from '../components/dialog.tsx';
import { Empty, Loading } from '../components/feedback.tsx';
import { SelectField, TextField } from '../components/field.tsx';
import { Page } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { Refresh } from '../components/refresh.tsx';
import { type ConfigKind, configKinds, configPath } from '../config-kinds.ts';
import { useInterval, useLoad } from '../load.ts';
import {
  closeOverlay,
  navigate,
  offsetOf,
  openOverlay,
  optionIn,
  setQuery,
  urlFor,
  useRoute,
} from '../route.ts';
import { useSession } from '../session.ts';
import type { ConfigObject } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { ConfigEditor } from './configuration-editor.tsx';
import { ConfigTable } from './configuration-table.tsx';
import { ProviderTestDialog } from './configuration-test.tsx';

const pollMs = 5_000;

/** The objects of the configuration, which operators change while the gateway runs. */
export function Configuration() {
  const chosen = optionIn(configKinds, useRoute().query.get('kind'), 'providers');
  return <Objects key={chosen} kind={configKinds[chosen]} />;
}

function Objects({ kind }: { readonly kind: ConfigKind }) {
  const { key } = useSession();
  const { query } = useRoute();
  const path = `/admin/v1/${kind.plural}`;
  const loaded = useLoad(path, (signal) => requestData<ConfigObject[]>(path, { key, signal }));
  const { data, reload } = loaded;
  // The states of providers and their keys change without anybody's doing.
  const isPolled = kind.plural === 'providers';
  useInterval(pollMs, isPolled, reload);
  const [deleting, setDeleting] = useState<ConfigObject>();
  const [testing, setTesting] = useState<string>();
  const edited = query.get('edit');
  const close = () => closeOverlay('edit');
  return (
    <Page
      title="Configuration"
      lead="Changes apply to new requests on every process within a second."
      actions={
        <>
          {!isPolled && <Refresh {...loaded} />}
          {kind.example && (
            <AddButton text={`Create ${kind.one}`} onClick={() => openOverlay({ edit: ' ' })} />
          )}
        </>
      }
    >
      <Filters kind={kind} />
      <Loading loaded={loaded} text={`Loading ${kind.plural}…`} />
      {data && <List kind={kind} objects={data} onDelete={setDeleting} onTest={setTesting} />}
      {edited !== null && (
        <ConfigEditor
          kind={kind}
          name={edited.trim()}
          onDone={() => {
            close();
            reload();
          }}
          onClose={close}
        />
      )}
      {testing !== undefined && (
        <ProviderTestDialog name={testing} onClose={() => setTesting(undefined)} />
      )}
      {deleting && (
        <DeleteObject
          kind={kind}
          object={deleting}
          onDone={() => {
            setDeleting(undefined);
            reload();
          }}
          onClose={() => setDeleting(undefined)}
        />
      )}
    </Page>
  );
}

const owners = {
  all: 'All',
  store: 'Created here',
  file: 'File',
  built_in: 'Built in',
} as const;

function Filters({ kind }: { readonly kind: ConfigKind }) {
  const { query } = useRoute();
  return (
    <div class="toolbar">
      <div class="segments">
        {Object.entries(configKinds).map(([name, { title }]) => (
          <button
            key={name}
            type="button"
            aria-pressed={name === kind.plural}
            onClick={() => navigate(urlFor('configuration', { kind: name }))}
          >
            {title}
          </button>
        ))}
      </div>
      <TextField
        label="Search"
        type="search"
        placeholder="Name"
        value={query.get('search') ?? ''}
        onValue={(search) => setQuery({ search, offset: null }, 'replace')}
      />
      <SelectField
        label="Owner"
        value={optionIn(owners, query.get('owner'), 'all')}
        onValue={(owner) => setQuery({ owner: owner === 'all' ? null : owner, offset: null })}
        options={Object.entries(owners)}
      />
    </div>
  );
}

interface ListProps {
  readonly kind: ConfigKind;
  readonly objects: readonly ConfigObject[];
  readonly onDelete: (object: ConfigObject) => void;
  readonly onTest: (name: string) => void;
}

/** Thousands of rows would make the page slow to type in. */
const rowsPerPage = 100;

function List({ kind, objects, ...actions }: ListProps) {
  const route = useRoute();
  const { query } = route;
  const search = (query.get('search') ?? '').toLowerCase();
  const owner = optionIn(owners, query.get('owner'), 'all');
  const shown = objects.filter(
    (object) =>
      object.name.toLowerCase().includes(search) && (owner === 'all' || object.owner === owner),
  );
  const offset = offsetOf(route);
  if (shown.length > 0) {
    const page = shown.slice(offset, offset + rowsPerPage);
    return (
      <ConfigTable kind={kind} objects={page} {...actions}>
        <Pager
          label={`Pages of ${kind.plural}`}
          offset={offset}
          perPage={rowsPerPage}
          isFull={shown.length > offset + rowsPerPage}
        />
      </ConfigTable>
    );
  }
  if (objects.length === 0) {
    const { name = '', document = {} } = kind.example ?? {};
    const command = curl('PUT', configPath(kind, name), document, '$TOLLGATE_ADMIN_TOKEN');
    return <Empty title={`No ${kind.plural} yet`} curl={command} />;
  }
  return (
    <Empty title={`No matching ${kind.plural}`}>
      <p>
        <a href={urlFor('configuration', { kind: kind.plural })}>Show all {kind.plural}</a>
      </p>
    </Empty>
  );
}

interface DeleteProps {
  readonly kind: ConfigKind;
  readonly object: ConfigObject;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function DeleteObject({ kind, object: { name, version }, onDone, onClose }: DeleteProps) {
  const { key } = useSession();
  return (
    <Confirm
      title={`Delete the ${kind.noun} ${name}?`}
      confirmLabel="Delete"
      onClose={onClose}
      work={async () => {
        const headers = { 'if-match': `"${version}"` };
        await requestJson(configPath(kind, name), { key, method: 'DELETE', headers });
        onDone();
      }}
    >
      <p>
        {kind.example
          ? `If ${kind.one} of this name is built in, it applies again.`
          : 'The default applies again.'}
      </p>
    </Confirm>
  );
}
