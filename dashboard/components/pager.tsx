import { turnTo } from '../route.ts';

interface PagerProps {
  readonly label: string;
  readonly offset: number;
  readonly perPage: number;
  /** Whether the page is full, so that another may follow. */
  readonly isFull: boolean;
  readonly labels?: readonly [back: string, on: string];
}

/** Turns the pages of a list of unknown length; shows nothing if there is only one page. */
export function Pager({ label, offset, perPage, isFull, labels = ['Back', 'More'] }: PagerProps) {
  if (offset === 0 && !isFull) return null;
  return (
    <nav class="pager buttons" aria-label={label}>
      <button
        type="button"
        class="quiet"
        disabled={offset === 0}
        onClick={() => turnTo(offset - perPage)}
      >
        {labels[0]}
      </button>
      <button
        type="button"
        class="quiet"
        disabled={!isFull}
        onClick={() => turnTo(offset + perPage)}
      >
        {labels[1]}
      </button>
    </nav>
  );
}
