import { useState } from 'preact/hooks';
import { download } from '../api.ts';
import { bytes } from '../format.ts';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import { Icon } from './icon.tsx';
import { ErrorNote } from './notes.tsx';

interface DownloadProps {
  readonly path: string;
  readonly name: string;
  readonly text: string;
  /** Names the content, if several downloads are below each other. */
  readonly of?: string;
  readonly form?: 'button' | 'link';
}

/** Downloads a table as a file; long ones take time, so it shows how much has arrived. */
export function Download({ path, name, text, of, form = 'button' }: DownloadProps) {
  const { key } = useSession();
  const action = useAction();
  const [got, setGot] = useState(0);
  const save = () => {
    setGot(0);
    action.run(() => download(path, key, name, setGot));
  };
  return (
    <>
      <button
        type="button"
        class={form === 'link' ? 'link' : 'quiet'}
        disabled={action.busy}
        onClick={save}
      >
        {form === 'button' && <Icon name="down" />}
        <span aria-live="polite">{action.busy ? `Exporting ${bytes(got)}` : text}</span>
        {of !== undefined && <span class="unseen">{of}</span>}
      </button>
      <ErrorNote message={action.error} />
    </>
  );
}
