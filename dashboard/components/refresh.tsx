import type { Loaded } from '../load.ts';
import { Icon } from './icon.tsx';

/** The reload button beside the heading of a page whose numbers change. */
export function Refresh({ busy, reload }: Pick<Loaded<unknown>, 'busy' | 'reload'>) {
  return (
    <button type="button" class="quiet" disabled={busy} onClick={reload}>
      <Icon name="refresh" />
      Refresh
    </button>
  );
}
