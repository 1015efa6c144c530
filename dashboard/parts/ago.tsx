import { ago, time } from '../format.ts';

/** How long ago; the moment itself under the pointer. */
export function Ago({ iso }: { readonly iso: string | null }) {
  return (
    <span class="one-line" {...(iso === null ? {} : { title: `${time(iso)} UTC` })}>
      {ago(iso)}
    </span>
  );
}
