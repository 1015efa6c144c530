import { useState } from 'preact/hooks';
import { requestData, requestJson } from '../api.ts';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Form, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { Loading } from '../components/notes.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count, time } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { Entry, Tenant } from '../shapes.ts';

interface FormProps {
  readonly onDone: () => void;
  readonly onClose: () => void;
}

const orNull = (text: string) => (text === '' ? null : Number(text));

export function TenantForm({ tenant, onDone, onClose }: FormProps & { tenant?: Tenant }) {
  const { key } = useSession();
  const [name, setName] = useState(tenant?.name ?? '');
  const [id, setId] = useState('');
  const [perMinute, setPerMinute] = useState(String(tenant?.requests_per_minute ?? ''));
  const [atOnce, setAtOnce] = useState(String(tenant?.concurrent_requests ?? ''));
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const limits = {
        requests_per_minute: orNull(perMinute),
        concurrent_requests: orNull(atOnce),
      };
      const body = { name: name.trim(), ...limits, ...(id === '' ? {} : { id }) };
      const path = tenant ? `/admin/v1/tenants/${tenant.id}` : '/admin/v1/tenants';
      await requestJson(path, { key, method: tenant ? 'PATCH' : 'POST', body });
      onDone();
    });
  return (
    <Dialog title={tenant ? `Edit ${tenant.name}` : 'Create a tenant'} onClose={onClose}>
      <Form onSubmit={submit}>
        <TextField label="Name" value={name} onValue={setName} required />
        {!tenant && <TextField label="Id" placeholder="made for you" value={id} onValue={setId} />}
        <div class="pair">
          <TextField
            label="Requests per minute"
            type="number"
            min="1"
            placeholder="the usual"
            value={perMinute}
            onValue={setPerMinute}
          />
          <TextField
            label="Requests at once"
            type="number"
            min="1"
            placeholder="the usual"
            value={atOnce}
            onValue={setAtOnce}
          />
        </div>
        <FormEnd verb={tenant ? 'Save' : 'Create'} action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

export function TenantSwitch({ tenant, onDone, onClose }: FormProps & { tenant: Tenant }) {
  const { key } = useSession();
  const verb = tenant.disabled ? 'Enable' : 'Disable';
  const turn = async () => {
    const body = { disabled: !tenant.disabled };
    await requestJson(`/admin/v1/tenants/${tenant.id}`, { key, method: 'PATCH', body });
    onDone();
  };
  return (
    <Confirm title={`${verb} ${tenant.name}?`} verb={verb} work={turn} onClose={onClose}>
      <p>
        {tenant.disabled
          ? 'All of its keys work again within a second.'
          : 'All of its keys are refused within a second. Its credits and records stay.'}
      </p>
    </Confirm>
  );
}

const columns: readonly Column<Entry>[] = [
  { title: 'Time', isHead: true, cell: ({ created_at }) => `${time(created_at)} UTC` },
  { title: 'Kind', cell: ({ type }) => type },
  { title: 'Note', cell: ({ note }) => note || '–' },
  numberColumn('Amount', ({ amount }) => count(amount)),
  numberColumn('Balance', ({ balance }) => count(balance)),
];

/** Grants or corrects credits, and lists what was booked by hand before. */
export function GrantForm({ tenant, onDone, onClose }: FormProps & { tenant: Tenant }) {
  const { key } = useSession();
  const [amount, setAmount] = useState('');
  const [note, setNote] = useState('');
  // Made once when the form opens: pressing twice, or again after a lost answer, books only once.
  const [idempotencyKey] = useState(
    () => `dashboard-${crypto.getRandomValues(new Uint32Array(4)).join('-')}`,
  );
  const action = useAction();
  const path = `/admin/v1/tenants/${tenant.id}/credits`;
  const loaded = useLoad(path, async (signal) => {
    return (await requestData<{ entries: Entry[] }>(path, { key, signal })).entries;
  });
  const { data } = loaded;
  const submit = () =>
    action.run(async () => {
      const body = { amount: Number(amount), note, idempotency_key: idempotencyKey };
      await requestJson(path, { key, method: 'POST', body });
      onDone();
    });
  return (
    <Dialog title={`Credits of ${tenant.name}`} form="sheet" onClose={onClose}>
      <Form onSubmit={submit}>
        <p>
          <b>{count(tenant.credits.available)}</b> available, {count(tenant.credits.held)} held.
        </p>
        <TextField
          label="Credits to add"
          type="number"
          step="1"
          hint="Whole credits; below zero takes back, never more than is available."
          value={amount}
          onValue={setAmount}
          required
        />
        <TextField label="Note" value={note} onValue={setNote} />
        <FormEnd verb="Book" action={action} onClose={onClose} />
      </Form>
      <h3>Grants and corrections</h3>
      <Loading of={loaded} what="Fetching the entries…" />
      {data?.length === 0 && <p class="hint">Nothing was booked by hand yet.</p>}
      {data && data.length > 0 && (
        <Table
          label="Grants and corrections"
          columns={columns}
          rows={data}
          rowKey={({ id }) => String(id)}
        />
      )}
    </Dialog>
  );
}
