import { useState } from 'preact/hooks';
import { download } from '../api.ts';
import { bytes } from '../format.ts';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import { ErrorNote } from './feedback.tsx';
import { Icon } from './icon.tsx';

interface DownloadProps {
  readonly path: string;
  readonly name: string;
  readonly text: string;
  /** Tells screen readers what is downloaded, if several buttons have the same text. */
  readonly subject?: string;
  readonly variant?: 'button' | 'link';
}

/** Downloads a table as a file and shows how much has arrived. */
export function Download({ path, name, text, subject, variant = 'button' }: DownloadProps) {
  const { key } = useSession();
  const action = useAction();
  const [received, setReceived] = useState(0);
  const save = () => {
    setReceived(0);
    action.run(() => download(path, key, name, setReceived));
  };
  return (
    <>
      <button
        type="button"
        class={variant === 'link' ? 'link' : 'secondary'}
        disabled={action.busy}
        onClick={save}
      >
        {variant === 'button' && <Icon name="down" />}
        <span aria-live="polite">{action.busy ? `Exporting ${bytes(received)}` : text}</span>
        {subject !== undefined && <span class="visually-hidden">{subject}</span>}
      </button>
      <ErrorNote message={action.error} />
    </>
  );
}
