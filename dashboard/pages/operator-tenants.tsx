import { useState } from 'preact/hooks';
import { requestData } from '../api.ts';
import { AddButton } from '../components/add-button.tsx';
import { SelectField, TextField } from '../components/field.tsx';
import { Empty, Loading } from '../components/notes.tsx';
import { Card } from '../components/page.tsx';
import { Pager } from '../components/pager.tsx';
import { useEvery, useLoad } from '../load.ts';
import { choose, chosenIn, closeOverlay, offsetOf, openOverlay, useRoute } from '../route.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Tenant } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { KeyForm } from './key-form.tsx';
import { SecretBox } from './key-secret.tsx';
import { GrantForm, TenantForm, TenantSwitch } from './operator-forms.tsx';
import { TenantTable, type TenantVerb } from './operator-tenant-table.tsx';

const tenantsPerPage = 100;
/** Polled less often than the tiles above, because it adds up the month of every tenant. */
const pollMs = 30_000;

const orders = {
  spend: { text: 'Most spent', sort: 'spend', order: 'desc' },
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
  const chosen = chosenIn(orders, route.query.get('sort'), 'spend');
  const offset = offsetOf(route);
  const { sort, order } = orders[chosen];
  const query = new URLSearchParams({ sort, order, offset: String(offset) });
  if (search !== '') query.set('search', search);
  const path = `/admin/v1/tenants?${query}`;
  const loaded = useLoad(path, (signal) => requestData<Tenant[]>(path, { key, signal }));
  useEvery(pollMs, true, loaded.reload);
  return { ...loaded, search, chosen, offset, isCreating: route.query.get('create') === '1' };
}

interface TenantSectionProps {
  readonly onChange: () => void;
}

export function TenantSection({ onChange }: TenantSectionProps) {
  const page = useTenantPage();
  const { data, reload, search, chosen, offset, isCreating } = page;
  const [doing, setDoing] = useState<{ readonly verb: TenantVerb; readonly tenant: Tenant }>();
  const [issued, setIssued] = useState<IssuedKey>();
  const done = (key?: IssuedKey) => {
    setDoing(undefined);
    closeOverlay('create');
    if (key) setIssued(key);
    reload();
    onChange();
  };
  return (
    <Card
      title="Tenants"
      actions={<AddButton text="Create a tenant" onClick={() => openOverlay({ create: '1' })} />}
    >
      <Filters search={search} chosen={chosen} />
      <Loading of={page} what="Fetching the tenants…" />
      {data?.length === 0 && <Nobody isFirst={offset === 0} search={search} />}
      {data && data.length > 0 && (
        <TenantTable tenants={data} onVerb={(verb, tenant) => setDoing({ verb, tenant })} />
      )}
      <Pager
        label="Pages of tenants"
        offset={offset}
        perPage={tenantsPerPage}
        isFull={data?.length === tenantsPerPage}
      />
      {isCreating && <TenantForm onDone={done} onClose={() => closeOverlay('create')} />}
      {doing && <Doing {...doing} onDone={done} onClose={() => setDoing(undefined)} />}
      {issued && <SecretBox issued={issued} onClose={() => setIssued(undefined)} />}
    </Card>
  );
}

interface FiltersProps {
  readonly search: string;
  readonly chosen: keyof typeof orders;
}

function Filters({ search, chosen }: FiltersProps) {
  return (
    <div class="toolbar">
      <TextField
        label="Search"
        type="search"
        placeholder="Name or id"
        value={search}
        onValue={(text) => choose({ search: text, offset: null }, 'replace')}
      />
      <SelectField
        label="Sort by"
        value={chosen}
        onValue={(sort) => choose({ sort, offset: null })}
        options={Object.entries(orders).map(([name, { text }]) => [name, text] as const)}
      />
    </div>
  );
}

interface NobodyProps {
  readonly isFirst: boolean;
  readonly search: string;
}

function Nobody({ isFirst, search }: NobodyProps) {
  if (!isFirst) return <Empty title="No more tenants" />;
  if (search !== '') {
    return (
      <Empty title="No tenant matches">
        <p>Try a shorter part of the name or id.</p>
      </Empty>
    );
  }
  const line = curl('POST', '/admin/v1/tenants', { name: 'Acme' }, '$TOLLGATE_ADMIN_TOKEN');
  return <Empty title="No tenants yet" curl={line} />;
}

interface DoingProps {
  readonly verb: TenantVerb;
  readonly tenant: Tenant;
  readonly onDone: (issued?: IssuedKey) => void;
  readonly onClose: () => void;
}

function Doing({ verb, tenant, onDone, onClose }: DoingProps) {
  const common = { tenant, onDone: () => onDone(), onClose };
  if (verb === 'grant') return <GrantForm {...common} />;
  if (verb === 'edit') return <TenantForm {...common} />;
  if (verb === 'switch') return <TenantSwitch {...common} />;
  const path = `/admin/v1/tenants/${tenant.id}/keys`;
  return <KeyForm path={path} onDone={onDone} onClose={onClose} />;
}
