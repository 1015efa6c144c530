import { useState } from 'preact/hooks';
import { requestData, requestJson } from '../api.ts';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Loading } from '../components/feedback.tsx';
import { Form, SelectField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { count, time } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ConfigObject, CreditEntry, Tenant, TenantCredits } from '../shapes.ts';

interface FormProps {
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Returns the names of the plans, which set what tenants pay compared to list prices. */
export function usePlanNames(): readonly string[] {
  const { key } = useSession();
  const path = '/admin/v1/plans';
  const { data = [] } = useLoad(path, (signal) =>
    requestData<ConfigObject[]>(path, { key, signal }),
  );
  return data.map(({ name }) => name);
}

const numberOrNull = (text: string) => (text === '' ? null : Number(text));

export function TenantForm({ tenant, onDone, onClose }: FormProps & { tenant?: Tenant }) {
  const { key } = useSession();
  const [name, setName] = useState(tenant?.name ?? '');
  const [id, setId] = useState('');
  const [perMinute, setPerMinute] = useState(String(tenant?.requests_per_minute ?? ''));
  const [concurrent, setConcurrent] = useState(String(tenant?.concurrent_requests ?? ''));
  const [plan, setPlan] = useState(tenant?.plan ?? '');
  const plans = usePlanNames();
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const limits = {
        requests_per_minute: numberOrNull(perMinute),
        concurrent_requests: numberOrNull(concurrent),
        plan: plan === '' ? null : plan,
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
        {!tenant && <TextField label="ID" placeholder="generated" value={id} onValue={setId} />}
        <div class="pair">
          <TextField
            label="Requests per minute"
            type="number"
            min="1"
            placeholder="default"
            value={perMinute}
            onValue={setPerMinute}
          />
          <TextField
            label="Concurrent requests"
            type="number"
            min="1"
            placeholder="default"
            value={concurrent}
            onValue={setConcurrent}
          />
        </div>
        {(plans.length > 0 || plan !== '') && (
          <SelectField
            label="Plan"
            value={plan}
            onValue={setPlan}
            options={[...new Set(['', ...plans, plan])].map((name) => [name, name || 'default'])}
          />
        )}
        <FormEnd submitLabel={tenant ? 'Save' : 'Create'} action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

export function TenantToggle({ tenant, onDone, onClose }: FormProps & { tenant: Tenant }) {
  const { key } = useSession();
  const label = tenant.disabled ? 'Enable' : 'Disable';
  const toggle = async () => {
    const body = { disabled: !tenant.disabled };
    await requestJson(`/admin/v1/tenants/${tenant.id}`, { key, method: 'PATCH', body });
    onDone();
  };
  return (
    <Confirm
      title={`${label} ${tenant.name}?`}
      confirmLabel={label}
      work={toggle}
      onClose={onClose}
    >
      <p>
        {tenant.disabled
          ? 'Its keys work again within a second.'
          : 'Its keys stop working within a second. Its credits and records are kept.'}
      </p>
    </Confirm>
  );
}

const columns: readonly Column<CreditEntry>[] = [
  { title: 'Time', isHead: true, cell: ({ created_at }) => `${time(created_at)} UTC` },
  { title: 'Type', cell: ({ type }) => type },
  { title: 'Note', cell: ({ note }) => note || '–' },
  numberColumn('Amount', ({ amount }) => count(amount)),
  numberColumn('Balance', ({ balance }) => count(balance)),
];

/** Grants or corrects credits, and lists earlier grants and corrections. */
export function GrantForm({ tenant, onDone, onClose }: FormProps & { tenant: Tenant }) {
  const { key } = useSession();
  const [amount, setAmount] = useState('');
  const [note, setNote] = useState('');
  // Created once per form, so that a second click or a retry after a lost response books once.
  const [idempotencyKey] = useState(
    () => `dashboard-${crypto.getRandomValues(new Uint32Array(4)).join('-')}`,
  );
  const action = useAction();
  const path = `/admin/v1/tenants/${tenant.id}/credits`;
  const loaded = useLoad(path, async (signal) => {
    return (await requestData<TenantCredits>(path, { key, signal })).entries;
  });
  const { data } = loaded;
  const submit = () =>
    action.run(async () => {
      const body = { amount: Number(amount), note, idempotency_key: idempotencyKey };
      await requestJson(path, { key, method: 'POST', body });
      onDone();
    });
  return (
    <Dialog title={`Credits of ${tenant.name}`} variant="sheet" onClose={onClose}>
      <Form onSubmit={submit}>
        <p>
          <b>{count(tenant.credits.available)}</b> available, {count(tenant.credits.held)} held.
        </p>
        <TextField
          label="Credits to add"
          type="number"
          step="1"
          hint="A whole number. A negative number removes credits, up to the available balance."
          value={amount}
          onValue={setAmount}
          required
        />
        <TextField label="Note" value={note} onValue={setNote} />
        <FormEnd submitLabel="Apply" action={action} onClose={onClose} />
      </Form>
      <h3>Grants and corrections</h3>
      <Loading loaded={loaded} text="Loading entries…" />
      {data?.length === 0 && <p class="hint">No grants or corrections yet.</p>}
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
