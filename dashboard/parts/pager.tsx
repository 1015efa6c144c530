import { turnTo } from '../place.ts';

interface PagerProps {
  readonly label: string;
  readonly offset: number;
  readonly perPage: number;
  /** Whether the page is full, so that another may follow. */
  readonly isFull: boolean;
  readonly words?: readonly [back: string, on: string];
}

/** Turns the pages of a list of unknown length; shows nothing if there is only one page. */
export function Pager({ label, offset, perPage, isFull, words = ['Back', 'More'] }: PagerProps) {
  if (offset === 0 && !isFull) return null;
  return (
    <nav class="pager buttons" aria-label={label}>
      <button
        type="button"
        class="quiet"
        disabled={offset === 0}
        onClick={() => turnTo(offset - perPage)}
      >
        {words[0]}
      </button>
      <button
        type="button"
        class="quiet"
        disabled={!isFull}
        onClick={() => turnTo(offset + perPage)}
      >
        {words[1]}
      </button>
    </nav>
  );
}
