import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { Empty, Loading } from '../components/feedback.tsx';
import { SelectField, TextField } from '../components/field.tsx';
import { Card } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { useInterval, useLoad } from '../load.ts';
import { closeOverlay, offsetOf, openOverlay, optionIn, setQuery, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { Tenant } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { GrantForm, TenantForm, TenantToggle, usePlanNames } from './operator-forms.tsx';
import { type TenantAction, TenantTable } from './operator-tenant-table.tsx';

const tenantsPerPage = 100;
/** Longer than `pollMs` in operator.tsx, because this request adds up every tenant's month. */
const pollMs = 30_000;

const orders = {
  spend: { text: 'Highest spend', sort: 'spend', order: 'desc' },
  credits: { text: 'Fewest credits', sort: 'credits', order: 'asc' },
  requests: { text: 'Most requests', sort: 'requests', order: 'desc' },
  failed: { text: 'Most failures', sort: 'failed_requests', order: 'desc' },
  written_off: { text: 'Most written off', sort: 'written_off', order: 'desc' },
  name: { text: 'Name', sort: 'name', order: 'asc' },
  newest: { text: 'Newest', sort: 'created_at', order: 'desc' },
} as const;

function useTenantPage() {
  const { key } = useSession();
  const route = useRoute();
  const search = route.query.get('search') ?? '';
  const chosen = optionIn(orders, route.query.get('sort'), 'spend');
  const offset = offsetOf(route);
  const plan = route.query.get('plan') ?? '';
  const { sort, order } = orders[chosen];
  const query = new URLSearchParams({ sort, order, offset: String(offset) });
  if (search !== '') query.set('search', search);
  if (plan !== '') query.set('plan', plan);
  const path = `/admin/v1/tenants?${query}`;
  const loaded = useLoad(path, (signal) => requestData<Tenant[]>(path, { key, signal }));
  useInterval(pollMs, true, loaded.reload);
  return { ...loaded, search, plan, chosen, offset, isCreating: route.query.get('create') === '1' };
}

interface OpenAction {
  readonly action: TenantAction;
  readonly tenant: Tenant;
}

interface TenantSectionProps {
  readonly onChange: () => void;
}

export function TenantSection({ onChange }: TenantSectionProps) {
  const page = useTenantPage();
  const { data, reload, search, plan, chosen, offset, isCreating } = page;
  const [openAction, setOpenAction] = useState<OpenAction>();
  const done = () => {
    setOpenAction(undefined);
    closeOverlay('create');
    reload();
    onChange();
  };
  return (
    <Card
      title="Tenants"
      actions={<AddButton text="Create a tenant" onClick={() => openOverlay({ create: '1' })} />}
    >
      <Filters search={search} plan={plan} chosen={chosen} />
      <Loading loaded={page} text="Loading tenants…" />
      {data?.length === 0 && (
        <NoTenants isFirst={offset === 0} isFiltered={search !== '' || plan !== ''} />
      )}
      {data && data.length > 0 && (
        <TenantTable
          tenants={data}
          onAction={(action, tenant) => setOpenAction({ action, tenant })}
        />
      )}
      <Pager
        label="Pages of tenants"
        offset={offset}
        perPage={tenantsPerPage}
        isFull={data?.length === tenantsPerPage}
      />
      {isCreating && <TenantForm onDone={done} onClose={() => closeOverlay('create')} />}
      {openAction && (
        <ActionDialog {...openAction} onDone={done} onClose={() => setOpenAction(undefined)} />
      )}
    </Card>
  );
}

interface FiltersProps {
  readonly search: string;
  readonly plan: string;
  readonly chosen: keyof typeof orders;
}

function Filters({ search, plan, chosen }: FiltersProps) {
  const plans = usePlanNames();
  return (
    <div class="toolbar">
      <TextField
        label="Search"
        type="search"
        placeholder="Name or ID"
        value={search}
        onValue={(text) => setQuery({ search: text, offset: null }, 'replace')}
      />
      {(plans.length > 0 || plan !== '') && (
        <SelectField
          label="Plan"
          value={plan}
          onValue={(name) => setQuery({ plan: name, offset: null })}
          options={[...new Set(['', ...plans, plan])].map((name) => [name, name || 'All'])}
        />
      )}
      <SelectField
        label="Sort by"
        value={chosen}
        onValue={(sort) => setQuery({ sort, offset: null })}
        options={Object.entries(orders).map(([name, { text }]) => [name, text] as const)}
      />
    </div>
  );
}

interface NoTenantsProps {
  readonly isFirst: boolean;
  readonly isFiltered: boolean;
}

function NoTenants({ isFirst, isFiltered }: NoTenantsProps) {
  if (!isFirst) return <Empty title="No more tenants" />;
  if (isFiltered) {
    return (
      <Empty title="No matching tenants">
        <p>Try a shorter part of the name or ID, or another plan.</p>
      </Empty>
    );
  }
  const command = curl('POST', '/admin/v1/tenants', { name: 'Acme' }, '$TOLLGATE_ADMIN_TOKEN');
  return <Empty title="No tenants yet" curl={command} />;
}

interface ActionDialogProps extends OpenAction {
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function ActionDialog({ action, ...common }: ActionDialogProps) {
  if (action === 'grant') return <GrantForm {...common} />;
  if (action === 'edit') return <TenantForm {...common} />;
  return <TenantToggle {...common} />;
}
