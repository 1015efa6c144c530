import { useState } from 'preact/hooks';
import { ask } from '../api.ts';
import { count, date } from '../format.ts';
import { useLoad } from '../load.ts';
import { AddButton } from '../parts/add-button.tsx';
import { Badge, Busy, Empty, ErrorNote } from '../parts/notes.tsx';
import { Card } from '../parts/page.tsx';
import { Pager } from '../parts/pager.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Verb } from '../parts/verb.tsx';
import { choose, offsetOf, usePlace } from '../place.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Tenant } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { KeyForm } from './key-form.tsx';
import { SecretBox } from './key-secret.tsx';
import { GrantForm, TenantForm, TenantSwitch } from './operator-forms.tsx';

const tenantsPerPage = 100;

type TenantVerb = 'grant' | 'key' | 'edit' | 'switch';

interface TenantSectionProps {
  readonly onChange: () => void;
}

export function TenantSection({ onChange }: TenantSectionProps) {
  const { key } = useSession();
  const place = usePlace();
  const { query } = place;
  const offset = offsetOf(place);
  const path = `/admin/v1/tenants?offset=${offset}`;
  const { data, error, busy, reload } = useLoad(path, async (signal) => {
    return (await ask<{ data: Tenant[] }>(path, { key, signal })).data;
  });
  const [doing, setDoing] = useState<{ readonly verb: TenantVerb; readonly tenant: Tenant }>();
  const [issued, setIssued] = useState<IssuedKey>();
  const done = (key?: IssuedKey) => {
    setDoing(undefined);
    choose({ create: null }, 'replace');
    if (key) setIssued(key);
    reload();
    onChange();
  };
  return (
    <Card
      title="Tenants"
      actions={<AddButton text="Create a tenant" onClick={() => choose({ create: '1' })} />}
    >
      <ErrorNote message={error} />
      {!data && busy && <Busy what="Fetching the tenants…" />}
      {data && (
        <List
          tenants={data}
          isFirst={offset === 0}
          onVerb={(verb, tenant) => setDoing({ verb, tenant })}
        />
      )}
      {(offset > 0 || data?.length === tenantsPerPage) && (
        <Pager
          label="Pages of tenants"
          offset={offset}
          perPage={tenantsPerPage}
          isFull={data?.length === tenantsPerPage}
        />
      )}
      {query.get('create') === '1' && (
        <TenantForm onDone={done} onClose={() => choose({ create: null })} />
      )}
      {doing && <Doing {...doing} onDone={done} onClose={() => setDoing(undefined)} />}
      {issued && <SecretBox issued={issued} onClose={() => setIssued(undefined)} />}
    </Card>
  );
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

interface ListProps {
  readonly tenants: readonly Tenant[];
  readonly isFirst: boolean;
  readonly onVerb: (verb: TenantVerb, tenant: Tenant) => void;
}

function List({ tenants, isFirst, onVerb }: ListProps) {
  if (tenants.length === 0 && !isFirst) return <Empty title="No more tenants" />;
  if (tenants.length === 0) {
    const line = curl('POST', '/admin/v1/tenants', { name: 'Acme' }, '$TOLLGATE_ADMIN_TOKEN');
    return <Empty title="No tenants yet" curl={line} />;
  }
  const columns: Column<Tenant>[] = [
    {
      title: 'Tenant',
      isHead: true,
      cell: ({ name, id, disabled }) => (
        <span class="two-lines">
          <span>
            <b>{name}</b> {disabled && <Badge tone="warn">disabled</Badge>}
          </span>
          <small>
            <code>{id}</code>
          </small>
        </span>
      ),
    },
    number('Available', ({ credits }) => <b>{count(credits.available)}</b>),
    number('Held', ({ credits }) => count(credits.held)),
    number('A minute', (tenant) => limit(tenant.requests_per_minute)),
    number('At once', (tenant) => limit(tenant.concurrent_requests)),
    { title: 'Since', cell: ({ created_at }) => <span class="one-line">{date(created_at)}</span> },
    {
      title: 'Actions',
      cell: (tenant) => <Verbs tenant={tenant} onVerb={(verb) => onVerb(verb, tenant)} />,
    },
  ];
  return <Table label="Tenants" columns={columns} rows={tenants} rowKey={({ id }) => id} />;
}

const number = (title: string, cell: Column<Tenant>['cell']) => ({ title, cell, isNumber: true });
const limit = (value: number | null) => (value === null ? 'the usual' : count(value));

interface VerbsProps {
  readonly tenant: Tenant;
  readonly onVerb: (verb: TenantVerb) => void;
}

function Verbs({ tenant, onVerb }: VerbsProps) {
  const verbs: [TenantVerb, string][] = [
    ['grant', 'Credits'],
    ['key', 'New key'],
    ['edit', 'Edit'],
    ['switch', tenant.disabled ? 'Enable' : 'Disable'],
  ];
  return (
    <span class="verbs">
      {verbs.map(([verb, text]) => (
        <Verb
          key={verb}
          text={text}
          label={`${text}: ${tenant.name}`}
          onClick={() => onVerb(verb)}
        />
      ))}
    </span>
  );
}
