import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorNote } from './components/feedback.tsx';
import { Form, TextField } from './components/field.tsx';
import { Mark } from './components/icon.tsx';
import { useAction } from './load.ts';
import { type VerifiedKey, verifyKey } from './session.ts';
import { useTitle } from './title.ts';

interface SignInProps {
  readonly message: string | undefined;
  /** Retries with the key that this tab already has. */
  readonly onRetry: (() => void) | undefined;
  readonly onVerified: (verified: VerifiedKey) => void;
}

const kinds = [
  ['sk-tg-…', 'Routing key', 'usage, spend, and the playground'],
  ['sk-mgmt-…', 'Management key', 'all of the above, plus keys'],
  ['sk-admin-…', 'Admin token', 'tenants, credits, and providers'],
] as const;

export function SignIn({ message, onRetry, onVerified }: SignInProps) {
  const [key, setKey] = useState('');
  const action = useAction();
  const card = useRef<HTMLDivElement>(null);
  useTitle('page', 'Sign in');
  useEffect(() => card.current?.querySelector('input')?.focus(), []);
  const submit = () => action.run(async () => onVerified(await verifyKey(key.trim())));
  return (
    <main class="sign-in">
      <div class="sign-in-card" ref={card}>
        <div class="brand large">
          <Mark />
          <h1>Tollgate</h1>
        </div>
        <p class="lead">View spend, usage, and keys for your gateway.</p>
        <Form onSubmit={submit}>
          <TextField
            label="Key or admin token"
            type="password"
            placeholder="sk-…"
            hint="Stored in this tab until you close it, and sent only to this gateway."
            value={key}
            onValue={setKey}
            required
          />
          <ErrorNote message={action.error ?? message} />
          {onRetry && (
            <button type="button" class="secondary wide" onClick={onRetry}>
              Try again with this tab's key
            </button>
          )}
          <button type="submit" class="primary wide" disabled={action.busy}>
            {action.busy ? 'Checking…' : 'Sign in'}
          </button>
        </Form>
        <dl class="key-kinds">
          {kinds.map(([prefix, name, shows]) => (
            <div key={prefix}>
              <dt>
                <code>{prefix}</code> {name}
              </dt>
              <dd>{shows}</dd>
            </div>
          ))}
        </dl>
        <p class="hint">
          No key yet? Get one from the operator of this gateway. The first start prints a key of
          each kind, and <code>tollgate keys create</code> creates more.
        </p>
      </div>
    </main>
  );
}
