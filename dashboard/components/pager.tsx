import { goToOffset } from '../route.ts';

interface PagerProps {
  readonly label: string;
  readonly offset: number;
  readonly perPage: number;
  /** True if the page is full, so another one may follow. */
  readonly isFull: boolean;
  readonly labels?: readonly [previous: string, next: string];
}

/** Pages through a list of unknown length. Hidden if there is only one page. */
export function Pager({
  label,
  offset,
  perPage,
  isFull,
  labels = ['Previous', 'Next'],
}: PagerProps) {
  if (offset === 0 && !isFull) return null;
  return (
    <nav class="pager buttons" aria-label={label}>
      <button
        type="button"
        class="secondary"
        disabled={offset === 0}
        onClick={() => goToOffset(offset - perPage)}
      >
        {labels[0]}
      </button>
      <button
        type="button"
        class="secondary"
        disabled={!isFull}
        onClick={() => goToOffset(offset + perPage)}
      >
        {labels[1]}
      </button>
    </nav>
  );
}
