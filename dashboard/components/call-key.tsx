import { useState } from 'preact/hooks';
import { useAction } from '../load.ts';
import { addressOf } from '../route.ts';
import { kindOf, prove, useSession } from '../session.ts';
import { Form, TextField } from './field.tsx';
import { ErrorNote } from './notes.tsx';
import { Card } from './page.tsx';

/** Asks for a routing key for this tab, because a management key cannot call models. */
export function BringCallKey({ what }: { readonly what: string }) {
  const { bringCallKey } = useSession();
  const [key, setKey] = useState('');
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const text = key.trim();
      if (kindOf(text) !== 'routing') throw new Error('A routing key starts with sk-tg-.');
      await prove(text);
      bringCallKey(text);
    });
  return (
    <Card title="This needs a routing key">
      <p>
        You are signed in with a management key, which cannot {what}. Paste a routing key to use
        beside it in this tab, or <a href={addressOf('keys', { create: '1' })}>create one</a>.
      </p>
      <Form onSubmit={submit} class="form row">
        <TextField
          label="Routing key"
          type="password"
          placeholder="sk-tg-…"
          value={key}
          onValue={setKey}
          required
        />
        <button type="submit" class="primary" disabled={action.busy}>
          Use it
        </button>
      </Form>
      <ErrorNote message={action.error} />
    </Card>
  );
}
