import { useEffect, useRef, useState } from 'preact/hooks';
import { Form, TextField } from './components/field.tsx';
import { Mark } from './components/icon.tsx';
import { ErrorNote } from './components/notes.tsx';
import { useAction } from './load.ts';
import { type Proven, prove } from './session.ts';
import { useTitle } from './title.ts';

interface SignInProps {
  readonly message: string | undefined;
  /** Tries again the key that this tab already has. */
  readonly again: (() => void) | undefined;
  readonly onProven: (proven: Proven) => void;
}

const kinds = [
  ['sk-tg-…', 'Routing key', 'traffic, spend and the playground'],
  ['sk-mgmt-…', 'Management key', 'all of that, and the keys'],
  ['sk-admin-…', 'Admin token', 'the operator’s view'],
] as const;

export function SignIn({ message, again, onProven }: SignInProps) {
  const [key, setKey] = useState('');
  const action = useAction();
  const card = useRef<HTMLDivElement>(null);
  useTitle('page', 'Sign in');
  useEffect(() => card.current?.querySelector('input')?.focus(), []);
  const submit = () => action.run(async () => onProven(await prove(key.trim())));
  return (
    <main class="sign-in">
      <div class="sign-in-card" ref={card}>
        <div class="brand large">
          <Mark />
          <h1>Tollgate</h1>
        </div>
        <p class="lead">See the money, the traffic and the keys.</p>
        <Form onSubmit={submit}>
          <TextField
            label="Key or admin token"
            type="password"
            placeholder="sk-…"
            hint="Kept in this tab until you close it, and sent to this gateway only."
            value={key}
            onValue={setKey}
            required
          />
          <ErrorNote message={action.error ?? message} />
          {again && (
            <button type="button" class="quiet wide" onClick={again}>
              Try again with the key of this tab
            </button>
          )}
          <button type="submit" class="primary wide" disabled={action.busy}>
            {action.busy ? 'Checking…' : 'Sign in'}
          </button>
        </Form>
        <dl class="kinds">
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
          No key yet? Whoever runs this Tollgate can give you one: the first start printed one of
          each, and <code>tollgate keys create</code> makes more.
        </p>
      </div>
    </main>
  );
}
