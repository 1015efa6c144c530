import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Badge, Empty, Loading } from '../components/feedback.tsx';
import { Form, SelectField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { Card, Page } from '../components/page.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type Column, Table } from '../components/table.tsx';
import { date } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import { closeOverlay, openOverlay, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Credential, CredentialList } from '../shapes.ts';
import { curl } from '../snippets.ts';

export function Byok() {
  const { key } = useSession();
  const { query } = useRoute();
  const loaded = useLoad('byok', (signal) =>
    requestJson<CredentialList>('/api/v1/byok', { key, signal }),
  );
  const { data, reload } = loaded;
  const [removing, setRemoving] = useState<Credential>();
  const provider = query.get('provider');
  const close = () => closeOverlay('provider');
  return (
    <Page
      title="Provider keys (BYOK)"
      lead="Your own keys at model providers. They bill you; Tollgate charges a platform fee."
      actions={
        <AddButton text="Add a provider key" onClick={() => openOverlay({ provider: 'new' })} />
      }
    >
      <Loading loaded={loaded} text="Loading provider keys…" />
      {data && <List list={data} onDelete={setRemoving} />}
      {data && provider !== null && (
        <CredentialForm
          list={data}
          chosen={provider}
          onDone={() => {
            close();
            reload();
          }}
          onClose={close}
        />
      )}
      {removing && (
        <Confirm
          title={`Remove the ${removing.provider} key?`}
          confirmLabel="Remove"
          onClose={() => setRemoving(undefined)}
          work={async () => {
            await requestJson(`/api/v1/byok/${removing.provider}`, { key, method: 'DELETE' });
            setRemoving(undefined);
            reload();
          }}
        >
          <p>The key is deleted, and requests to this provider use shared capacity again.</p>
        </Confirm>
      )}
    </Page>
  );
}

interface ListProps {
  readonly list: CredentialList;
  readonly onDelete: (credential: Credential) => void;
}

function List({ list, onDelete }: ListProps) {
  const [first] = list.providers;
  if (list.data.length === 0) {
    const path = `/api/v1/byok/${first?.name ?? 'openai'}`;
    const command = curl('PUT', path, { api_key: 'sk-…' }, '$TOLLGATE_MANAGEMENT_KEY');
    return (
      <Empty title="No provider keys yet" curl={command}>
        <p>Add a key to run requests under your own contract with a provider.</p>
      </Empty>
    );
  }
  const columns: Column<Credential>[] = [
    { title: 'Provider', isHead: true, cell: ({ provider }) => <b>{provider}</b> },
    { title: 'Key', cell: ({ label }) => <code>{label}</code> },
    {
      title: 'Mode',
      cell: ({ mode }) => (
        <Badge>{mode === 'byok_only' ? 'this key only' : 'this key, then shared'}</Badge>
      ),
    },
    { title: 'Base URL', cell: ({ base_url }) => base_url ?? 'default' },
    { title: 'Updated', cell: ({ updated_at }) => date(updated_at) },
    {
      title: 'Actions',
      cell: (credential) => (
        <span class="row-actions">
          <RowAction
            text="Replace"
            label={`Replace the ${credential.provider} key`}
            onClick={() => openOverlay({ provider: credential.provider })}
          />
          <RowAction
            text="Remove"
            label={`Remove the ${credential.provider} key`}
            onClick={() => onDelete(credential)}
          />
        </span>
      ),
    },
  ];
  return (
    <Card>
      <Table
        label="Provider keys"
        columns={columns}
        rows={list.data}
        rowKey={({ provider }) => provider}
      />
    </Card>
  );
}

interface CredentialFormProps {
  readonly list: CredentialList;
  /** The provider whose key to replace. Any other value opens the form for a new key. */
  readonly chosen: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

const modes = [
  ['byok_first', 'This key first, then shared capacity'],
  ['byok_only', 'This key only'],
] as const;

function CredentialForm({ list, chosen, onDone, onClose }: CredentialFormProps) {
  const { key } = useSession();
  const { providers, data } = list;
  const existing = data.find(({ provider }) => provider === chosen);
  const [name, setName] = useState(existing ? chosen : (providers[0]?.name ?? ''));
  const [secret, setSecret] = useState('');
  const [mode, setMode] = useState<string>(existing?.mode ?? 'byok_first');
  const [baseUrl, setBaseUrl] = useState(existing?.base_url ?? '');
  const action = useAction();
  const acceptsBaseUrl = providers.find((one) => one.name === name)?.takes_base_url === true;
  const submit = () =>
    action.run(async () => {
      const base_url = acceptsBaseUrl && baseUrl.trim() !== '' ? baseUrl.trim() : null;
      const body = { api_key: secret.trim(), mode, ...(base_url === null ? {} : { base_url }) };
      await requestJson(`/api/v1/byok/${encodeURIComponent(name)}`, { key, method: 'PUT', body });
      onDone();
    });
  return (
    <Dialog title={existing ? `Replace the ${chosen} key` : 'Add a provider key'} onClose={onClose}>
      <Form onSubmit={submit}>
        <SelectField
          label="Provider"
          value={name}
          onValue={setName}
          options={providers.map((one) => [one.name, one.name] as const)}
        />
        <TextField
          label="API key"
          type="password"
          hint="Stored encrypted, never shown again. AWS key pairs and Google JSON keys work too."
          value={secret}
          onValue={setSecret}
          required
        />
        <SelectField label="Mode" value={mode} onValue={setMode} options={modes} />
        {acceptsBaseUrl && (
          <TextField
            label="Base URL"
            type="url"
            placeholder="default"
            value={baseUrl}
            onValue={setBaseUrl}
          />
        )}
        <FormEnd submitLabel="Save" action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
