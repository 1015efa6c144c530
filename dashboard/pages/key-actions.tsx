import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Form, SelectField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Key } from '../shapes.ts';
import { KeyForm } from './key-form.tsx';

export type KeyAction = 'edit' | 'rotate' | 'disable' | 'enable' | 'delete';

interface KeyActionProps {
  /** The API path of the keys. */
  readonly path: string;
  readonly subject: Key;
  readonly onDone: (issued?: IssuedKey) => void;
  readonly onClose: () => void;
}

const overlaps = [
  ['0', 'Stops working immediately'],
  ['3600', 'Works for 1 more hour'],
  ['86400', 'Works for 1 more day'],
  ['604800', 'Works for 1 more week'],
] as const;

function Rotate({ path, subject, onDone, onClose }: KeyActionProps) {
  const { key } = useSession();
  const [overlap, setOverlap] = useState('3600');
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const body = { overlap_seconds: Number(overlap) };
      const call = { key, method: 'POST', body };
      onDone(await requestJson<IssuedKey>(`${path}/${subject.id}/rotate`, call));
    });
  return (
    <Dialog title={`Rotate ${subject.name || subject.label}`} onClose={onClose}>
      <Form onSubmit={submit}>
        <p>The key gets a new secret. Its ID, limits, and usage stay the same.</p>
        <SelectField label="Old secret" value={overlap} onValue={setOverlap} options={overlaps} />
        <FormEnd submitLabel="Rotate" action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

const confirmations = {
  disable: {
    text: 'Disable',
    call: { method: 'PATCH', body: { disabled: true } },
    consequence:
      'Within a second, requests with this key start to fail. You can enable the key again.',
  },
  enable: {
    text: 'Enable',
    call: { method: 'PATCH', body: { disabled: false } },
    consequence: 'Within a second, requests with this key succeed again.',
  },
  delete: {
    text: 'Delete',
    call: { method: 'DELETE' },
    consequence: 'The key stops working permanently. Its requests stay in the logs and statements.',
  },
} as const;

function ConfirmKeyAction({
  path,
  action,
  subject,
  onDone,
  onClose,
}: KeyActionProps & { action: keyof typeof confirmations }) {
  const { key } = useSession();
  const { text, call, consequence } = confirmations[action];
  const work = async () => {
    await requestJson(`${path}/${subject.id}`, { key, ...call });
    onDone();
  };
  const title = `${text} ${subject.name || subject.label}?`;
  return (
    <Confirm title={title} confirmLabel={text} work={work} onClose={onClose}>
      <p>{consequence}</p>
    </Confirm>
  );
}

interface KeyActionDialogProps extends KeyActionProps {
  readonly action: KeyAction;
}

export function KeyActionDialog({ action, ...common }: KeyActionDialogProps) {
  const { subject: keyObject, ...form } = common;
  if (action === 'edit') return <KeyForm keyObject={keyObject} {...form} />;
  if (action === 'rotate') return <Rotate {...common} />;
  return <ConfirmKeyAction action={action} {...common} />;
}
