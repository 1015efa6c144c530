import { ago, time } from '../format.ts';

/** How long ago a moment was; its exact time is the tooltip. */
export function Ago({ iso }: { readonly iso: string | null }) {
  return (
    <span class="one-line" {...(iso === null ? {} : { title: `${time(iso)} UTC` })}>
      {ago(iso)}
    </span>
  );
}
