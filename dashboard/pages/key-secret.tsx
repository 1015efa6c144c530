import { useState } from 'preact/hooks';
import { CodeLine } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Tick } from '../components/field.tsx';
import { addressOf, goTo } from '../route.ts';
import { useSession } from '../session.ts';
import type { IssuedKey } from '../shapes.ts';
import { chatCurl } from '../snippets.ts';

interface SecretBoxProps {
  readonly issued: IssuedKey;
  readonly onClose: () => void;
}

/** The only time that a secret is seen; nobody can look it up afterwards. */
export function SecretBox({ issued, onClose }: SecretBoxProps) {
  const { kind, bringCallKey } = useSession();
  const [isStored, setStored] = useState(false);
  const { key, data } = issued;
  const isRouting = key.startsWith('sk-tg-');
  const tryIt = () => {
    bringCallKey(key);
    goTo(addressOf('playground'));
  };
  return (
    <Dialog title={`The secret of ${data.name || 'this key'}`} onClose={onClose} isHeld={!isStored}>
      <p>It is shown this once. Store it now; later only its first and last letters are known.</p>
      <CodeLine text={key} label="secret" isBroken />
      {isRouting && (
        <details>
          <summary>Use it</summary>
          <CodeLine text={`TOLLGATE_KEY=${key}`} label="line for .env" />
          <CodeLine text={chatCurl(undefined, key)} label="command" />
        </details>
      )}
      <Tick label="I have stored it" checked={isStored} onTick={setStored} />
      <footer class="buttons">
        {isRouting && kind === 'management' && (
          <button type="button" class="quiet" onClick={tryIt}>
            Try it in the playground
          </button>
        )}
        <button type="button" class="primary" disabled={!isStored} onClick={onClose}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}
