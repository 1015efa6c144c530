import { ago, time } from '../format.ts';

/** A relative time, with the exact time as a tooltip. */
export function Ago({ iso }: { readonly iso: string | null }) {
  return (
    <span class="one-line" {...(iso === null ? {} : { title: `${time(iso)} UTC` })}>
      {ago(iso)}
    </span>
  );
}
