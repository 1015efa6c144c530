import { useState } from 'preact/hooks';
import { CodeLine } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Checkbox } from '../components/field.tsx';
import { navigate, urlFor } from '../route.ts';
import { useSession } from '../session.ts';
import type { IssuedKey } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';

interface SecretBoxProps {
  readonly issued: IssuedKey;
  readonly onClose: () => void;
}

/** Shows a new secret. It can't be shown again later. */
export function SecretBox({ issued, onClose }: SecretBoxProps) {
  const { kind, setRoutingKey } = useSession();
  const [isSaved, setSaved] = useState(false);
  const { key, data } = issued;
  const isRouting = key.startsWith('sk-tg-');
  const tryIt = () => {
    setRoutingKey(key);
    navigate(urlFor('playground'));
  };
  return (
    <Dialog
      title={`Secret of ${data.name || 'this key'}`}
      onClose={onClose}
      isPersistent={!isSaved}
    >
      <p>Save this secret now. You won't be able to see it again.</p>
      <CodeLine text={key} label="secret" isWrapped />
      {isRouting && (
        <details>
          <summary>How to use it</summary>
          <CodeLine text={`TOLLGATE_KEY=${key}`} label="line for .env" />
          <CodeLine text={chatCurl(undefined, key)} label="command" />
        </details>
      )}
      <Checkbox label="I've saved it" checked={isSaved} onChange={setSaved} />
      <footer class="buttons">
        {isRouting && kind === 'management' && (
          <button type="button" class="secondary" onClick={tryIt}>
            Try it in the playground
          </button>
        )}
        <button type="button" class="primary" disabled={!isSaved} onClick={onClose}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}
