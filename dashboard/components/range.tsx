import { chooseRange, lastDays, monthOf, type Range } from '../days.ts';
import { CommittedTextField } from './field.tsx';

const presets: readonly (readonly [text: string, range: () => Range])[] = [
  ['Today', () => lastDays(1)],
  ['7 days', () => lastDays(7)],
  ['30 days', () => lastDays(30)],
  ['90 days', () => lastDays(90)],
  ['This month', () => monthOf(lastDays(1).to)],
];

/** Earlier days are ignored, because typing 2026 first produces the years 2, 20, and 202. */
const firstDay = '2000-01-01';

export function RangePicker({ range }: { readonly range: Range }) {
  const isSelected = ({ from, to }: Range) => range.from === from && range.to === to;
  const set = (change: Partial<Range>) => {
    const next = { ...range, ...change };
    if (next.from >= firstDay && next.from <= next.to) chooseRange(next, 'replace');
  };
  return (
    <fieldset class="range">
      <legend class="visually-hidden">Date range (UTC)</legend>
      <div class="segments">
        {presets.map(([text, preset]) => (
          <button
            key={text}
            type="button"
            aria-pressed={isSelected(preset())}
            onClick={() => chooseRange(preset())}
          >
            {text}
          </button>
        ))}
      </div>
      <CommittedTextField
        label="From"
        type="date"
        max={range.to}
        value={range.from}
        onValue={(from) => set({ from })}
      />
      <CommittedTextField
        label="To"
        type="date"
        min={range.from}
        value={range.to}
        onValue={(to) => set({ to })}
      />
    </fieldset>
  );
}
