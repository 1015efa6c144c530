import { useState } from 'preact/hooks';
import { objectsIn, textOf } from '../../src/core/json.ts';
import { requestJson } from '../api.ts';
import { Form, SelectField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { configKinds, configPath } from '../config-kinds.ts';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import type { ConfigObject } from '../shapes.ts';
import { SecretField } from './configuration-provider-keys.tsx';

const overlaps = [
  ['3600', 'for an hour'],
  ['86400', 'for a day'],
  ['604800', 'for a week'],
  ['0', 'not at all'],
] as const;

interface RotationProps {
  readonly provider: ConfigObject;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Replaces a key while the previous one stays in reserve. */
export function KeyRotation({ provider: { name, config = {} }, onDone, onClose }: RotationProps) {
  const { key } = useSession();
  const names = objectsIn(config.api_keys).map((one) => textOf(one.name));
  const [replaced, setReplaced] = useState(names[0] ?? '');
  const [secret, setSecret] = useState('');
  const [overlap, setOverlap] = useState('86400');
  const action = useAction();
  if (names.length === 0 && typeof config.api_key !== 'string') return null;
  const submit = () =>
    action.run(async () => {
      const body = {
        api_key: secret,
        overlap_seconds: Number(overlap),
        ...(replaced !== '' && { key: replaced }),
      };
      const path = `${configPath(configKinds.providers, name)}/rotate`;
      await requestJson(path, { key, method: 'POST', body });
      onDone();
    });
  return (
    <details>
      <summary>Rotate a key</summary>
      <Form onSubmit={submit}>
        <div class="pair">
          {names.length > 0 && (
            <SelectField
              label="Key to replace"
              value={replaced}
              onValue={setReplaced}
              options={names.map((one) => [one, one])}
            />
          )}
          <SelectField
            label="Keep the previous key in reserve"
            value={overlap}
            onValue={setOverlap}
            options={overlaps}
          />
        </div>
        <SecretField
          title="New key"
          label=""
          value={secret}
          onValue={setSecret}
          error={undefined}
          isRequired
        />
        <FormEnd submitLabel="Rotate" action={action} onClose={onClose} />
      </Form>
    </details>
  );
}
