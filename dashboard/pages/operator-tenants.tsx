import { useState } from 'preact/hooks';
import { ask } from '../api.ts';
import { count, date } from '../format.ts';
import { useLoad } from '../load.ts';
import { Icon } from '../parts/icon.tsx';
import { Badge, Busy, Empty, ErrorNote } from '../parts/notes.tsx';
import { Card } from '../parts/page.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { choose, usePlace } from '../place.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Tenant } from '../shapes.ts';
import { curl } from '../snippets.ts';
import { KeyForm } from './key-form.tsx';
import { SecretBox } from './key-secret.tsx';
import { GrantForm, TenantForm, TenantSwitch } from './operator-forms.tsx';

const tenantsPerPage = 100;

type Verb = 'grant' | 'key' | 'edit' | 'switch';

interface TenantSectionProps {
  readonly onChange: () => void;
}

export function TenantSection({ onChange }: TenantSectionProps) {
  const { key } = useSession();
  const { query } = usePlace();
  const offset = Number(query.get('offset') ?? 0) || 0;
  const path = `/admin/v1/tenants?offset=${offset}`;
  const { data, error, busy, reload } = useLoad(path, async (signal) => {
    return (await ask<{ data: Tenant[] }>(path, { key, signal })).data;
  });
  const [doing, setDoing] = useState<{ readonly verb: Verb; readonly tenant: Tenant }>();
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
      actions={
        <button type="button" class="primary" onClick={() => choose({ create: '1' })}>
          <Icon name="plus" />
          Create a tenant
        </button>
      }
    >
      <ErrorNote message={error} />
      {!data && busy && <Busy what="Fetching the tenants…" />}
      {data && <List tenants={data} onVerb={(verb, tenant) => setDoing({ verb, tenant })} />}
      {(offset > 0 || data?.length === tenantsPerPage) && (
        <Pager offset={offset} isFull={data?.length === tenantsPerPage} />
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
  readonly verb: Verb;
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

interface PagerProps {
  readonly offset: number;
  readonly isFull: boolean;
}

function Pager({ offset, isFull }: PagerProps) {
  const turn = (to: number) => choose({ offset: to > 0 ? String(to) : null });
  return (
    <nav class="pager buttons" aria-label="Pages of tenants">
      <button
        type="button"
        class="quiet"
        disabled={offset === 0}
        onClick={() => turn(offset - tenantsPerPage)}
      >
        Back
      </button>
      <button
        type="button"
        class="quiet"
        disabled={!isFull}
        onClick={() => turn(offset + tenantsPerPage)}
      >
        More
      </button>
    </nav>
  );
}

interface ListProps {
  readonly tenants: readonly Tenant[];
  readonly onVerb: (verb: Verb, tenant: Tenant) => void;
}

function List({ tenants, onVerb }: ListProps) {
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
    { title: 'Since', cell: ({ created_at }) => date(created_at) },
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
  readonly onVerb: (verb: Verb) => void;
}

function Verbs({ tenant, onVerb }: VerbsProps) {
  const verbs: [Verb, string][] = [
    ['grant', 'Credits'],
    ['key', 'New key'],
    ['edit', 'Edit'],
    ['switch', tenant.disabled ? 'Enable' : 'Disable'],
  ];
  return (
    <span class="verbs">
      {verbs.map(([verb, text]) => (
        <button
          key={verb}
          type="button"
          class="link"
          aria-label={`${text}: ${tenant.name}`}
          onClick={() => onVerb(verb)}
        >
          {text}
        </button>
      ))}
    </span>
  );
}
