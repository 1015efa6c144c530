import type { Loaded } from '../load.ts';
import { Icon } from './icon.tsx';

/** The reload button of a page. */
export function Refresh({ busy, reload }: Pick<Loaded<unknown>, 'busy' | 'reload'>) {
  return (
    <button type="button" class="secondary" disabled={busy} onClick={reload}>
      <Icon name="refresh" />
      Refresh
    </button>
  );
}
