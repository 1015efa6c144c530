import { useState } from 'preact/hooks';
import { requestData, requestJson } from '../api.ts';
import { ErrorNote, Loading } from '../components/feedback.tsx';
import { Form, TextField } from '../components/field.tsx';
import { RowAction } from '../components/row-action.tsx';
import { useAction, useLoad } from '../load.ts';
import { urlFor } from '../route.ts';
import { useSession } from '../session.ts';
import type { ConfigObject, Tenant } from '../shapes.ts';

const defaultPlan = '/admin/v1/settings/billing.default_plan';
const tenantsPerPage = 100;

/** The tenants that pay the prices of a plan, and a form to give it to another one. */
export function PlanTenants({ plan }: { readonly plan: string }) {
  const { key } = useSession();
  const path = `/admin/v1/tenants?${new URLSearchParams({ plan, sort: 'name' })}`;
  const loaded = useLoad(path, async (signal) => {
    const [tenants, setting] = await Promise.all([
      requestData<Tenant[]>(path, { key, signal }),
      requestData<ConfigObject>(defaultPlan, { key, signal }),
    ]);
    return { tenants, isDefault: setting.value === plan };
  });
  const { data, reload } = loaded;
  const action = useAction();
  const remove = (tenant: string) =>
    action.run(async () => {
      await setPlan(key, tenant, null);
      reload();
    });
  const setDefault = (value: string | null) =>
    action.run(async () => {
      await requestJson(defaultPlan, { key, method: 'PUT', body: { value } });
      reload();
    });
  return (
    <section class="fields">
      <h3>Tenants with this plan</h3>
      <Loading loaded={loaded} text="Loading tenants…" />
      {data && (
        <p class="hint">
          {data.isDefault ? 'All tenants without a plan of their own, too. ' : ''}
          <button
            type="button"
            class="link"
            onClick={() => setDefault(data.isDefault ? null : plan)}
          >
            {data.isDefault ? 'Stop using it as the default' : 'Make it the default for all others'}
          </button>
        </p>
      )}
      {data?.tenants.length === 0 && <p class="hint">No tenant has it.</p>}
      <ul class="stack">
        {data?.tenants.map((tenant) => (
          <li key={tenant.id} class="row">
            <span>
              {tenant.name} <code>{tenant.id}</code>
            </span>
            <RowAction
              text="Remove"
              label={`Remove the plan from ${tenant.name}`}
              onClick={() => remove(tenant.id)}
            />
          </li>
        ))}
      </ul>
      {data?.tenants.length === tenantsPerPage && (
        <a href={urlFor('operator', { plan })}>Show all of them</a>
      )}
      <ErrorNote message={action.error} />
      <AssignForm plan={plan} onDone={reload} />
    </section>
  );
}

async function setPlan(key: string, tenant: string, plan: string | null): Promise<void> {
  const path = `/admin/v1/tenants/${encodeURIComponent(tenant)}`;
  await requestJson(path, { key, method: 'PATCH', body: { plan } });
}

interface AssignProps {
  readonly plan: string;
  readonly onDone: () => void;
}

function AssignForm({ plan, onDone }: AssignProps) {
  const { key } = useSession();
  const [id, setId] = useState('');
  const action = useAction();
  const path = `/admin/v1/tenants?${new URLSearchParams({ search: id, sort: 'name' })}`;
  const { data = [] } = useLoad(path, (signal) => requestData<Tenant[]>(path, { key, signal }));
  const submit = () =>
    action.run(async () => {
      await setPlan(key, id.trim(), plan);
      setId('');
      onDone();
    });
  return (
    <Form onSubmit={submit} class="form row">
      <TextField
        label="Give it to (tenant ID)"
        value={id}
        onValue={setId}
        suggestions={data.map((tenant) => tenant.id)}
        error={action.error}
        required
      />
      <button type="submit" class="secondary" disabled={action.busy}>
        Assign
      </button>
    </Form>
  );
}
