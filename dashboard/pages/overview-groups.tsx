import { Swatch } from '../components/chart.tsx';
import { useKeyNames } from '../components/key-choice.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import type { Range } from '../days.ts';
import { brief, count, counted, milliseconds, percentInColumn } from '../format.ts';
import { addressOf, type Choices } from '../route.ts';
import type { Analytics, Group, Summary } from '../shapes.ts';
import { Change } from './overview-metrics.tsx';

export const splitNames = {
  model: 'Model',
  provider: 'Provider',
  api_key_id: 'Key',
  traffic_mode: 'Traffic mode',
} as const;

export type SplitName = keyof typeof splitNames;

export function nameOfGroup(
  value: string | null,
  split: SplitName,
  names: ReadonlyMap<string, string>,
): string {
  if (value === null) return 'All others';
  if (value === '') return split === 'provider' ? 'nobody answered' : 'unnamed';
  return split === 'api_key_id' ? (names.get(value) ?? value) : value;
}

/** The period and the key to which all numbers of the page belong. */
export interface Scope {
  readonly range: Range;
  /** Empty for all keys. */
  readonly keyId: string;
}

/** The address of the log that shows exactly the requests behind a number. */
export function rowsBehind({ range, keyId }: Scope, filter: Choices = {}): string {
  return addressOf('logs', { ...range, key: keyId || null, ...filter });
}

/** The log can be filtered by model and key only; groups of any other split get no link. */
function filterOf(value: string | null, split: SplitName): Choices | undefined {
  if (value === null || value === '') return undefined;
  if (split === 'model') return { model: value };
  return split === 'api_key_id' ? { key: value } : undefined;
}

interface GroupTableProps {
  readonly groups: readonly Group[];
  /** The same numbers for the period before. */
  readonly then: Analytics;
  readonly split: SplitName;
  readonly scope: Scope;
}

export function GroupTable({ groups, then, split, scope }: GroupTableProps) {
  const names = useKeyNames();
  const spent = groups.reduce((sum, { summary }) => sum + summary.total_spend, 0);
  const columns: Column<Group>[] = [
    {
      title: splitNames[split],
      isHead: true,
      cell: (group) => {
        const { value } = group;
        const name = nameOfGroup(value, split, names);
        const filter = filterOf(value, split);
        return (
          <span class="group-name">
            <Swatch index={groups.indexOf(group)} />
            {filter ? <a href={rowsBehind(scope, filter)}>{name}</a> : name}
          </span>
        );
      },
    },
    numberColumn('Requests', (group) => count(group.summary.total_requests)),
    numberColumn('Errors', ({ value, summary }) => {
      const text = percentInColumn(summary.error_rate);
      const filter = filterOf(value, split);
      if (!filter || summary.failed_requests === 0) return text;
      return (
        <a
          href={rowsBehind(scope, { ...filter, status: 'error' })}
          aria-label={`${text}: ${failures(summary)} of ${nameOfGroup(value, split, names)}`}
        >
          {text}
        </a>
      );
    }),
    numberColumn('Tokens', (group) => count(group.summary.total_tokens)),
    numberColumn('Latency', (group) => milliseconds(group.summary.avg_latency_ms)),
    numberColumn('Spend', (group) => <Spend group={group} then={then} />),
    numberColumn('Share', (group) =>
      spent === 0 ? '–' : percentInColumn((group.summary.total_spend / spent) * 100),
    ),
  ];
  return (
    <Table
      label={`Sums by ${splitNames[split].toLowerCase()}`}
      columns={columns}
      rows={groups}
      rowKey={({ value }) => String(value)}
    />
  );
}

/** `1 failed request`, `19 failed requests`. */
export function failures({ failed_requests }: Summary): string {
  return counted(failed_requests, 'failed request');
}

/** What a group spent and how that changed, so that the reason for an expensive month shows. */
function Spend({ group, then }: { readonly group: Group; readonly then: Analytics }) {
  const { value, summary } = group;
  const past = spentBefore(value, then);
  return (
    <span class="two-lines">
      <b>{count(summary.total_spend)}</b>
      {past === undefined
        ? value !== null && <span class="below">among all others before</span>
        : summary.total_spend + past > 0 && (
            <Change now={summary.total_spend} then={past} moreIs="neither" format={brief} />
          )}
    </span>
  );
}

/**
 * What the group spent in the period before. Unknown if it may have been among "all others" then,
 * or is that group.
 */
function spentBefore(value: string | null, { groups = [] }: Analytics): number | undefined {
  const isComplete = groups.every((group) => group.value !== null);
  const found = groups.find((group) => group.value === value)?.summary.total_spend;
  return value === null ? undefined : (found ?? (isComplete ? 0 : undefined));
}
