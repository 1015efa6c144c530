import { Badge } from '../components/feedback.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import { daysLeft } from '../days.ts';
import { count, percent, plural } from '../format.ts';
import { urlFor } from '../route.ts';
import type { Tenant } from '../shapes.ts';

export type TenantAction = 'grant' | 'edit' | 'toggle';

interface TenantTableProps {
  readonly tenants: readonly Tenant[];
  readonly onAction: (action: TenantAction, tenant: Tenant) => void;
}

/** Lists tenants with their credits and this month's spend, requests, and write-offs. */
export function TenantTable({ tenants, onAction }: TenantTableProps) {
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
      cell: (tenant) => (
        <RowActions tenant={tenant} onAction={(action) => onAction(action, tenant)} />
      ),
    },
  ];
  return <Table label="Tenants" columns={columns} rows={tenants} rowKey={({ id }) => id} />;
}

function Name({ tenant }: { readonly tenant: Tenant }) {
  const { name, id, disabled, plan, requests_per_minute, concurrent_requests } = tenant;
  return (
    <span class="two-lines">
      <span>
        <b>{name}</b> {disabled && <Badge tone="warn">disabled</Badge>}
      </span>
      <small>
        <code>{id}</code>
      </small>
      {plan !== null && <small>plan {plan}</small>}
      {requests_per_minute !== null && <small>{count(requests_per_minute)} requests/min</small>}
      {concurrent_requests !== null && <small>{count(concurrent_requests)} concurrent</small>}
    </span>
  );
}

/** Warns if the credits last fewer days than this. */
const warnBelowDays = 7;

function CreditsLeft({ tenant: { credits, current_period } }: { readonly tenant: Tenant }) {
  const { total, held } = credits;
  const left = daysLeft(total, current_period.total_spend);
  const isLow = total > 0 && left !== undefined && left < warnBelowDays;
  return (
    <span class="two-lines">
      <b>{count(total)}</b>
      {held > 0 && <small>{count(held)} held</small>}
      {total === 0 && <Badge tone="bad">empty</Badge>}
      {isLow && (
        <Badge tone="warn">{left < 1 ? 'hours' : `about ${plural(left, 'day')}`} left</Badge>
      )}
    </span>
  );
}

/** Monthly error rates at or above this percentage are highlighted. */
const warnFromPercent = 10;

function Requests({ requests, failed_requests }: Tenant['current_period']) {
  const failed = (failed_requests / requests) * 100;
  const text = `${percent(failed)} failed`;
  return (
    <span class="two-lines">
      <span>{count(requests)}</span>
      {failed_requests > 0 &&
        (failed < warnFromPercent ? <small>{text}</small> : <Badge tone="bad">{text}</Badge>)}
    </span>
  );
}

interface RowActionsProps {
  readonly tenant: Tenant;
  readonly onAction: (action: TenantAction) => void;
}

function RowActions({ tenant, onAction }: RowActionsProps) {
  const actions: [TenantAction, string][] = [
    ['grant', 'Credits'],
    ['edit', 'Edit'],
    ['toggle', tenant.disabled ? 'Enable' : 'Disable'],
  ];
  return (
    <span class="row-actions">
      <a href={urlFor('operator', { tenant: tenant.id })} aria-label={`Keys: ${tenant.name}`}>
        Keys
      </a>
      {actions.map(([action, text]) => (
        <RowAction
          key={action}
          text={text}
          label={`${text}: ${tenant.name}`}
          onClick={() => onAction(action)}
        />
      ))}
    </span>
  );
}
