import { useState } from 'preact/hooks';
import { useAction } from '../load.ts';
import { urlFor } from '../route.ts';
import { kindOf, useSession, verifyKey } from '../session.ts';
import { ErrorNote } from './feedback.tsx';
import { Form, TextField } from './field.tsx';
import { Card } from './page.tsx';

/** Prompts for a routing key, because a management key can't call models. */
export function RoutingKeyForm({ purpose }: { readonly purpose: string }) {
  const { setRoutingKey } = useSession();
  const [key, setKey] = useState('');
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const text = key.trim();
      if (kindOf(text) !== 'routing')
        throw new Error('Not a routing key. Routing keys start with sk-tg-.');
      await verifyKey(text);
      setRoutingKey(text);
    });
  return (
    <Card title="Routing key required">
      <p>
        You're signed in with a management key, which can't {purpose}. Paste a routing key to use in
        this tab, or <a href={urlFor('keys', { create: '1' })}>create one</a>.
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
          Use key
        </button>
      </Form>
      <ErrorNote message={action.error} />
    </Card>
  );
}
