import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Form, SelectField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { Badge, Empty, Loading } from '../components/notes.tsx';
import { Card, Page } from '../components/page.tsx';
import { type Column, Table } from '../components/table.tsx';
import { Verb } from '../components/verb.tsx';
import { date } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import { closeOverlay, openOverlay, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Credential } from '../shapes.ts';
import { curl } from '../snippets.ts';

interface Provider {
  readonly name: string;
  readonly takes_base_url: boolean;
}

interface Accounts {
  readonly data: readonly Credential[];
  readonly providers: readonly Provider[];
}

export function Byok() {
  const { key } = useSession();
  const { query } = useRoute();
  const loaded = useLoad('byok', (signal) =>
    requestJson<Accounts>('/api/v1/byok', { key, signal }),
  );
  const { data, reload } = loaded;
  const [removing, setRemoving] = useState<Credential>();
  const provider = query.get('provider');
  const close = () => closeOverlay('provider');
  return (
    <Page
      title="Own accounts"
      lead="Your keys at providers. They bill you themselves; here only a platform fee is charged."
      actions={<AddButton text="Add an account" onClick={() => openOverlay({ provider: 'new' })} />}
    >
      <Loading of={loaded} what="Fetching your accounts…" />
      {data && <List accounts={data} onDelete={setRemoving} />}
      {data && provider !== null && (
        <AccountForm
          accounts={data}
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
          title={`Remove your account at ${removing.provider}?`}
          verb="Remove"
          onClose={() => setRemoving(undefined)}
          work={async () => {
            await requestJson(`/api/v1/byok/${removing.provider}`, { key, method: 'DELETE' });
            setRemoving(undefined);
            reload();
          }}
        >
          <p>Its key is erased. Requests go to shared capacity from then on.</p>
        </Confirm>
      )}
    </Page>
  );
}

interface ListProps {
  readonly accounts: Accounts;
  readonly onDelete: (credential: Credential) => void;
}

function List({ accounts, onDelete }: ListProps) {
  const [first] = accounts.providers;
  if (accounts.data.length === 0) {
    const path = `/api/v1/byok/${first?.name ?? 'openai'}`;
    const line = curl('PUT', path, { api_key: 'sk-…' }, '$TOLLGATE_MANAGEMENT_KEY');
    return (
      <Empty title="No accounts of your own" curl={line}>
        <p>Bring the key of a provider, and your requests there run on your own contract.</p>
      </Empty>
    );
  }
  const columns: Column<Credential>[] = [
    { title: 'Provider', isHead: true, cell: ({ provider }) => <b>{provider}</b> },
    { title: 'Key', cell: ({ label }) => <code>{label}</code> },
    {
      title: 'Use',
      cell: ({ mode }) => (
        <Badge>{mode === 'byok_only' ? 'only this account' : 'first, then shared'}</Badge>
      ),
    },
    { title: 'Address', cell: ({ base_url }) => base_url ?? 'the usual' },
    { title: 'Changed', cell: ({ updated_at }) => date(updated_at) },
    {
      title: 'Actions',
      cell: (credential) => (
        <span class="verbs">
          <Verb
            text="Replace"
            label={`Replace the key at ${credential.provider}`}
            onClick={() => openOverlay({ provider: credential.provider })}
          />
          <Verb
            text="Remove"
            label={`Remove the account at ${credential.provider}`}
            onClick={() => onDelete(credential)}
          />
        </span>
      ),
    },
  ];
  return (
    <Card>
      <Table
        label="Own accounts"
        columns={columns}
        rows={accounts.data}
        rowKey={({ provider }) => provider}
      />
    </Card>
  );
}

interface AccountFormProps {
  readonly accounts: Accounts;
  readonly chosen: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

const modes = [
  ['byok_first', 'first, then shared capacity'],
  ['byok_only', 'only this account'],
] as const;

function AccountForm({ accounts, chosen, onDone, onClose }: AccountFormProps) {
  const { key } = useSession();
  const { providers, data } = accounts;
  const known = data.find(({ provider }) => provider === chosen);
  const [name, setName] = useState(known ? chosen : (providers[0]?.name ?? ''));
  const [secret, setSecret] = useState('');
  const [mode, setMode] = useState<string>(known?.mode ?? 'byok_first');
  const [address, setAddress] = useState(known?.base_url ?? '');
  const action = useAction();
  const takesAddress = providers.find((one) => one.name === name)?.takes_base_url === true;
  const submit = () =>
    action.run(async () => {
      const base_url = takesAddress && address.trim() !== '' ? address.trim() : null;
      const body = { api_key: secret.trim(), mode, ...(base_url === null ? {} : { base_url }) };
      await requestJson(`/api/v1/byok/${encodeURIComponent(name)}`, { key, method: 'PUT', body });
      onDone();
    });
  return (
    <Dialog title={known ? `Replace the key at ${chosen}` : 'Add an account'} onClose={onClose}>
      <Form onSubmit={submit}>
        <SelectField
          label="Provider"
          value={name}
          onValue={setName}
          options={providers.map((one) => [one.name, one.name] as const)}
        />
        <TextField
          label="Your key at this provider"
          type="password"
          hint="Kept encrypted, never shown again. AWS pairs and Google’s JSON work too."
          value={secret}
          onValue={setSecret}
          required
        />
        <SelectField label="Use it" value={mode} onValue={setMode} options={modes} />
        {takesAddress && (
          <TextField
            label="Address"
            type="url"
            placeholder="the usual"
            value={address}
            onValue={setAddress}
          />
        )}
        <FormEnd verb="Save" action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}
