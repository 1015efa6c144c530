import { Swatch } from '../components/chart.tsx';
import { ColorAssignments, othersColor } from '../components/chart-colors.ts';
import { useKeyNames } from '../components/key-choice.tsx';
import { type Column, numberColumn, Table } from '../components/table.tsx';
import type { Range } from '../days.ts';
import { brief, count, milliseconds, percentInColumn, plural } from '../format.ts';
import { type QueryChanges, urlFor } from '../route.ts';
import type { Analytics, Group, Summary } from '../shapes.ts';
import { Change } from './overview-metrics.tsx';

export const groupByNames = {
  model: 'Model',
  provider: 'Provider',
  api_key_id: 'Key',
  traffic_mode: 'Traffic mode',
} as const;

export type GroupBy = keyof typeof groupByNames;

export function nameOfGroup(
  value: string | null,
  groupBy: GroupBy,
  names: ReadonlyMap<string, string>,
): string {
  if (value === null) return 'All others';
  if (value === '') return groupBy === 'provider' ? 'no provider' : 'unnamed';
  return groupBy === 'api_key_id' ? (names.get(value) ?? value) : value;
}

const assignments = new ColorAssignments();

/** Returns the color of each group, the same in the chart and in the table. */
export function colorsOfGroups(groups: readonly Group[], groupBy: GroupBy) {
  const nameOf = (value: string) => `${groupBy} ${value}`;
  const values = groups.flatMap(({ value }) => (value === null ? [] : [nameOf(value)]));
  const colors = assignments.colorsOf(values);
  return ({ value }: Group): string =>
    (value === null ? undefined : colors.get(nameOf(value))) ?? othersColor;
}

/** The range and key to which all numbers on the page apply. */
export interface Scope {
  readonly range: Range;
  /** '' for all keys. */
  readonly keyId: string;
}

/** Returns a link to the log with exactly the requests that a number counts. */
export function logsLink({ range, keyId }: Scope, filter: QueryChanges = {}): string {
  return urlFor('logs', { ...range, key: keyId || null, ...filter });
}

/** Returns the log filter for a group. Only models and keys have one. */
function filterOf(value: string | null, groupBy: GroupBy): QueryChanges | undefined {
  if (value === null || value === '') return undefined;
  if (groupBy === 'model') return { model: value };
  return groupBy === 'api_key_id' ? { key: value } : undefined;
}

interface GroupTableProps {
  readonly groups: readonly Group[];
  /** The same numbers for the previous period. */
  readonly previous: Analytics;
  readonly groupBy: GroupBy;
  readonly scope: Scope;
}

export function GroupTable({ groups, previous, groupBy, scope }: GroupTableProps) {
  const names = useKeyNames();
  const spent = groups.reduce((sum, { summary }) => sum + summary.total_spend, 0);
  const colorOf = colorsOfGroups(groups, groupBy);
  const columns: Column<Group>[] = [
    {
      title: groupByNames[groupBy],
      isHead: true,
      cell: (group) => {
        const { value } = group;
        const name = nameOfGroup(value, groupBy, names);
        const filter = filterOf(value, groupBy);
        return (
          <span class="group-name">
            <Swatch color={colorOf(group)} />
            {filter ? <a href={logsLink(scope, filter)}>{name}</a> : name}
          </span>
        );
      },
    },
    numberColumn('Requests', (group) => count(group.summary.total_requests)),
    numberColumn('Errors', ({ value, summary }) => {
      const text = percentInColumn(summary.error_rate);
      const filter = filterOf(value, groupBy);
      if (!filter || summary.failed_requests === 0) return text;
      const name = nameOfGroup(value, groupBy, names);
      return (
        <a
          href={logsLink(scope, { ...filter, status: 'error' })}
          aria-label={`${text}: ${failedRequests(summary)} of ${name}`}
        >
          {text}
        </a>
      );
    }),
    numberColumn('Tokens', (group) => count(group.summary.total_tokens)),
    numberColumn('Latency', (group) => milliseconds(group.summary.avg_latency_ms)),
    numberColumn('Spend', (group) => <Spend group={group} previous={previous} />),
    numberColumn('Share', (group) =>
      spent === 0 ? '–' : percentInColumn((group.summary.total_spend / spent) * 100),
    ),
  ];
  return (
    <Table
      label={`Usage by ${groupByNames[groupBy].toLowerCase()}`}
      columns={columns}
      rows={groups}
      rowKey={({ value }) => String(value)}
    />
  );
}

/** `1 failed request`, `19 failed requests`. */
export function failedRequests({ failed_requests }: Summary): string {
  return plural(failed_requests, 'failed request');
}

/** Shows a group's spend and its change, because the change explains an expensive month. */
function Spend({ group, previous }: { readonly group: Group; readonly previous: Analytics }) {
  const { value, summary } = group;
  const before = previousSpend(value, previous);
  return (
    <span class="two-lines">
      <b>{count(summary.total_spend)}</b>
      {before === undefined
        ? value !== null && <span class="below">in “All others” before</span>
        : summary.total_spend + before > 0 && (
            <Change
              current={summary.total_spend}
              previous={before}
              increaseIs="neither"
              format={brief}
            />
          )}
    </span>
  );
}

/**
 * Returns a group's spend in the previous period. Returns undefined for "All others", and for a
 * group that may have been part of "All others" then.
 */
function previousSpend(value: string | null, { groups = [] }: Analytics): number | undefined {
  const isComplete = groups.every((group) => group.value !== null);
  const found = groups.find((group) => group.value === value)?.summary.total_spend;
  return value === null ? undefined : (found ?? (isComplete ? 0 : undefined));
}
