import { chooseRange, daysIn, lastDays, type Range } from '../days.ts';
import { WholeField } from './field.tsx';

const presets = [
  [1, 'Today'],
  [7, '7 days'],
  [30, '30 days'],
  [90, '90 days'],
] as const;

/** Whoever types a year passes through the years 2, 20 and 202. */
const firstDay = '2000-01-01';

export function RangePicker({ range }: { readonly range: Range }) {
  const isLast = (days: number) => range.to === lastDays(1).to && daysIn(range) === days;
  const set = (change: Partial<Range>) => {
    const next = { ...range, ...change };
    if (next.from >= firstDay && next.from <= next.to) chooseRange(next, 'replace');
  };
  return (
    <fieldset class="range">
      <legend class="unseen">Period, in UTC days</legend>
      <div class="segments">
        {presets.map(([days, text]) => (
          <button
            key={days}
            type="button"
            aria-pressed={isLast(days)}
            onClick={() => chooseRange(lastDays(days))}
          >
            {text}
          </button>
        ))}
      </div>
      <WholeField
        label="From"
        type="date"
        max={range.to}
        value={range.from}
        onValue={(from) => set({ from })}
      />
      <WholeField
        label="To"
        type="date"
        min={range.from}
        value={range.to}
        onValue={(to) => set({ to })}
      />
    </fieldset>
  );
}
