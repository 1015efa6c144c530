import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { Confirm, Dialog } from '../components/dialog.tsx';
import { Form, SelectField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Key } from '../shapes.ts';
import { KeyForm } from './key-form.tsx';

export type KeyVerb = 'edit' | 'rotate' | 'disable' | 'enable' | 'delete';

interface VerbProps {
  readonly subject: Key;
  readonly onDone: (issued?: IssuedKey) => void;
  readonly onClose: () => void;
}

const overlaps = [
  ['0', 'stops at once'],
  ['3600', 'works for one more hour'],
  ['86400', 'works for one more day'],
  ['604800', 'works for one more week'],
] as const;

function Rotate({ subject, onDone, onClose }: VerbProps) {
  const { key } = useSession();
  const [overlap, setOverlap] = useState('3600');
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const path = `/api/v1/keys/${subject.id}/rotate`;
      const body = { overlap_seconds: Number(overlap) };
      onDone(await requestJson<IssuedKey>(path, { key, method: 'POST', body }));
    });
  return (
    <Dialog title={`Rotate ${subject.name || subject.label}`} onClose={onClose}>
      <Form onSubmit={submit}>
        <p>The key gets a new secret and keeps its id, its limits and its use.</p>
        <SelectField
          label="The old secret"
          value={overlap}
          onValue={setOverlap}
          options={overlaps}
        />
        <FormEnd verb="Rotate" action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

const questions = {
  disable: {
    text: 'Disable',
    call: { method: 'PATCH', body: { disabled: true } },
    consequence:
      'Calls with it are refused within a second, on every process. It can be enabled again.',
  },
  enable: {
    text: 'Enable',
    call: { method: 'PATCH', body: { disabled: false } },
    consequence: 'Its secret works again within a second, on every process.',
  },
  delete: {
    text: 'Delete',
    call: { method: 'DELETE' },
    consequence: 'Its secret stops working for good. Its requests and charges stay in the records.',
  },
} as const;

function ConfirmKeyAction({
  verb,
  subject,
  onDone,
  onClose,
}: VerbProps & { verb: keyof typeof questions }) {
  const { key } = useSession();
  const { text, call, consequence } = questions[verb];
  const work = async () => {
    await requestJson(`/api/v1/keys/${subject.id}`, { key, ...call });
    onDone();
  };
  const title = `${text} ${subject.name || subject.label}?`;
  return (
    <Confirm title={title} verb={text} work={work} onClose={onClose}>
      <p>{consequence}</p>
    </Confirm>
  );
}

export function KeyVerbs({ verb, ...common }: VerbProps & { readonly verb: KeyVerb }) {
  const { subject, onDone, onClose } = common;
  if (verb === 'edit') return <KeyForm keyObject={subject} onDone={onDone} onClose={onClose} />;
  if (verb === 'rotate') return <Rotate {...common} />;
  return <ConfirmKeyAction verb={verb} {...common} />;
}
