import type { Range } from '../days.ts';
import { brief, count, milliseconds, percentInColumn } from '../format.ts';
import { colourClass } from '../parts/chart.tsx';
import { useKeyNames } from '../parts/key-choice.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { addressOf } from '../place.ts';
import type { Analytics, Group } from '../shapes.ts';
import { Change } from './overview-metrics.tsx';

export const splitNames = {
  model: 'Model',
  provider: 'Provider',
  api_key_id: 'Key',
  traffic_mode: 'Traffic mode',
} as const;

export type SplitName = keyof typeof splitNames;

export function isSplit(text: string): text is SplitName {
  return Object.hasOwn(splitNames, text);
}

export function nameOfGroup(
  value: string | null,
  split: SplitName,
  names: ReadonlyMap<string, string>,
): string {
  if (value === null) return 'All others';
  if (value === '') return split === 'provider' ? 'nobody answered' : 'unnamed';
  return split === 'api_key_id' ? (names.get(value) ?? value) : value;
}

/** The log can be filtered by these two; the others lead to the rows of the period. */
function rowsBehind(value: string, split: SplitName, { from, to }: Range): string {
  const filter = split === 'model' ? { model: value } : { key: value };
  return addressOf('logs', { ...filter, from, to });
}

interface GroupTableProps {
  readonly groups: readonly Group[];
  /** The period before. */
  readonly then: Analytics;
  readonly split: SplitName;
  readonly range: Range;
}

export function GroupTable({ groups, then, split, range }: GroupTableProps) {
  const names = useKeyNames();
  const spent = groups.reduce((sum, { summary }) => sum + summary.total_spend, 0);
  const isLinked = split === 'model' || split === 'api_key_id';
  const columns: Column<Group>[] = [
    {
      title: splitNames[split],
      isHead: true,
      cell: (group) => {
        const { value } = group;
        const name = nameOfGroup(value, split, names);
        const isLink = isLinked && value !== null && value !== '';
        return (
          <span class="group-name">
            <i class={colourClass(groups.indexOf(group))} aria-hidden="true" />
            {isLink ? <a href={rowsBehind(value, split, range)}>{name}</a> : name}
          </span>
        );
      },
    },
    number('Requests', (group) => count(group.summary.total_requests)),
    number('Errors', (group) => percentInColumn(group.summary.error_rate)),
    number('Tokens', (group) => count(group.summary.total_tokens)),
    number('Latency', (group) => milliseconds(group.summary.avg_latency_ms)),
    number('Spend', (group) => <Spend group={group} then={then} />),
    number('Share', (group) =>
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

/** What grew: the reason of a dear month stands in its row. */
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

/** Unknown for whoever was among all others then, or is now. */
function spentBefore(value: string | null, { groups = [] }: Analytics): number | undefined {
  const isWhole = groups.every((group) => group.value !== null);
  const found = groups.find((group) => group.value === value)?.summary.total_spend;
  return value === null ? undefined : (found ?? (isWhole ? 0 : undefined));
}

function number(title: string, cell: Column<Group>['cell']): Column<Group> {
  return { title, cell, isNumber: true };
}
