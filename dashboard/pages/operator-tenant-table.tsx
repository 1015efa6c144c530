import { Badge } from '../components/notes.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { Verb } from '../components/verb.tsx';
import { daysLeft } from '../days.ts';
import { count, percent } from '../format.ts';
import type { Tenant } from '../shapes.ts';

export type TenantVerb = 'grant' | 'key' | 'edit' | 'switch';

interface TenantTableProps {
  readonly tenants: readonly Tenant[];
  readonly onVerb: (verb: TenantVerb, tenant: Tenant) => void;
}

/** Each tenant's credits, and its spending, requests and written-off credits of this month. */
export function TenantTable({ tenants, onVerb }: TenantTableProps) {
  const columns: Column<Tenant>[] = [
    { title: 'Tenant', isHead: true, cell: (tenant) => <Name tenant={tenant} /> },
    numberColumn('Credits', (tenant) => <CreditsLeft tenant={tenant} />),
    numberColumn('Spent this month', ({ current_period }) => (
      <b>{count(current_period.total_spend)}</b>
    )),
    numberColumn('Requests', ({ current_period }) => <Requests {...current_period} />),
    numberColumn('Written off', ({ current_period: { written_off } }) =>
      written_off === 0 ? '–' : count(written_off),
    ),
    {
      title: 'Actions',
      cell: (tenant) => <Verbs tenant={tenant} onVerb={(verb) => onVerb(verb, tenant)} />,
    },
  ];
  return <Table label="Tenants" columns={columns} rows={tenants} rowKey={({ id }) => id} />;
}

function Name({ tenant }: { readonly tenant: Tenant }) {
  const { name, id, disabled, requests_per_minute, concurrent_requests } = tenant;
  return (
    <span class="two-lines">
      <span>
        <b>{name}</b> {disabled && <Badge tone="warn">disabled</Badge>}
      </span>
      <small>
        <code>{id}</code>
      </small>
      {requests_per_minute !== null && <small>{count(requests_per_minute)} a minute</small>}
      {concurrent_requests !== null && <small>{count(concurrent_requests)} at once</small>}
    </span>
  );
}

/** A tenant whose credits last fewer days than this gets a warning. */
const daysToWarn = 7;

function CreditsLeft({ tenant: { credits, current_period } }: { readonly tenant: Tenant }) {
  const { total, held } = credits;
  const left = daysLeft(total, current_period.total_spend);
  const isLow = total > 0 && left !== undefined && left < daysToWarn;
  return (
    <span class="two-lines">
      <b>{count(total)}</b>
      {held > 0 && <small>{count(held)} held</small>}
      {total === 0 && <Badge tone="bad">empty</Badge>}
      {isLow && <Badge tone="warn">{left < 1 ? 'hours' : `about ${left} d`} left</Badge>}
    </span>
  );
}

/** From this percentage of failed requests in a month on, the number is marked. */
const failedToWarn = 10;

function Requests({ requests, failed_requests }: Tenant['current_period']) {
  const failed = (failed_requests / requests) * 100;
  const text = `${percent(failed)} failed`;
  return (
    <span class="two-lines">
      <span>{count(requests)}</span>
      {failed_requests > 0 &&
        (failed < failedToWarn ? <small>{text}</small> : <Badge tone="bad">{text}</Badge>)}
    </span>
  );
}

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
