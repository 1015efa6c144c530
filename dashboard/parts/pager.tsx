import { turnTo } from '../place.ts';

interface PagerProps {
  readonly label: string;
  readonly offset: number;
  readonly perPage: number;
  /** A full page may be followed by another. */
  readonly isFull: boolean;
  readonly words?: readonly [back: string, on: string];
}

/** Turns the pages of a list whose length nobody has counted; nothing where it has only one. */
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
