import { type JsonObject, objectsIn, textOf } from '../../src/core/json.ts';
import { Badge, type Tone } from '../components/feedback.tsx';
import { Checkbox, NumberField, TextField } from '../components/field.tsx';
import { RowAction } from '../components/row-action.tsx';
import { type FormPartProps, fieldSetter, numberOf } from '../config-form.ts';
import { duration, percent, plural, time } from '../format.ts';
import type { ProviderHealth } from '../shapes.ts';

const keyField = /^api_keys\[(\d+)\]\.(?:name|key|weight|requests_per_minute|concurrent_requests)$/;

export function isProviderKeyField(path: string, keys: number): boolean {
  const index = keyField.exec(path)?.[1];
  return index !== undefined && Number(index) < keys;
}

type KeyState = ProviderHealth['keys'][number];

const states: Readonly<Record<KeyState['state'], { tone: Tone; text: string }>> = {
  available: { tone: 'good', text: 'available' },
  waiting: { tone: 'warn', text: 'rate limited' },
  set_aside: { tone: 'bad', text: 'set aside' },
  disabled: { tone: 'plain', text: 'disabled' },
};

/** The state of one of several keys, with the provider's message. */
export function ProviderKeyState({ keyState }: { readonly keyState: KeyState }) {
  const { state, status, retry_after_seconds, running_requests, until } = keyState;
  const { tone, text } = states[state];
  const details = [
    ...(status === null ? [] : [`status ${status}`]),
    ...(retry_after_seconds === null ? [] : [`tried again in ${waitText(retry_after_seconds)}`]),
    ...(until === null ? [] : [`replaced, used until ${time(until)} UTC`]),
    ...(running_requests === 0 ? [] : [`${plural(running_requests, 'request')} running`]),
  ];
  return (
    <>
      <Badge tone={tone}>{text}</Badge>
      {details.length > 0 && <small>{details.join(', ')}</small>}
    </>
  );
}

const waitText = (seconds: number) => (seconds < 120 ? `${seconds} s` : duration(seconds));

/** Returns the share of the requests that a key gets while all keys are available. */
export function keyShare({ weight, state }: KeyState, keys: readonly KeyState[]): string {
  const enabled = keys.filter((one) => one.state !== 'disabled');
  const sum = enabled.reduce((total, one) => total + one.weight, 0);
  return state === 'disabled' ? '0%' : percent((100 * weight) / sum);
}

interface SecretProps {
  readonly title?: string;
  readonly isRequired?: boolean;
  /** The last characters of the stored secret, or '' if there is none. */
  readonly label: string;
  readonly value: string;
  readonly onValue: (secret: string) => void;
  readonly error: string | undefined;
}

/** A field for a new API key. A stored one is never shown. */
export function SecretField(props: SecretProps) {
  const { title = 'API key', isRequired = false, label, ...rest } = props;
  const unchanged = label === '' ? '' : ` Leave it empty to keep the key ${label}.`;
  return (
    <TextField
      label={title}
      type="password"
      required={isRequired}
      placeholder={label}
      hint={`Stored encrypted, never shown again.${unchanged}`}
      {...rest}
    />
  );
}

/** Several keys of a provider, with their states as this process sees them. */
export function ProviderKeys(props: FormPartProps) {
  const { document, onDocument, secrets, onSecrets, errorAt, current } = props;
  const keys = objectsIn(document.api_keys);
  const known = (current as (typeof current & Partial<ProviderHealth>) | null)?.keys ?? [];
  const set = fieldSetter(document, onDocument);
  const remove = (index: number) => {
    onSecrets(withoutKey(secrets, index));
    set('api_keys', keys.toSpliced(index, 1));
  };
  return (
    <>
      <ol class="stack" aria-label="API keys">
        {[...keys.entries()].map(([index, key]) => {
          const path = `api_keys[${index}]`;
          return (
            <li key={index}>
              <ProviderKey
                fields={key}
                index={index}
                keyState={known.find(({ name }) => name === key.name)}
                onFields={(changed) => set('api_keys', keys.with(index, changed))}
                secret={secrets.get(`${path}.key`) ?? ''}
                onSecret={(secret) => onSecrets(new Map(secrets).set(`${path}.key`, secret))}
                errorAt={(name) => errorAt(`${path}.${name}`)}
                onRemove={keys.length > 1 ? () => remove(index) : undefined}
              />
            </li>
          );
        })}
      </ol>
      <p class="buttons">
        <button
          type="button"
          class="secondary small"
          onClick={() => set('api_keys', [...keys, { name: newName(keys.map((key) => key.name)) }])}
        >
          Add a key
        </button>
      </p>
    </>
  );
}

interface ProviderKeyProps {
  readonly fields: JsonObject;
  readonly index: number;
  readonly keyState: KeyState | undefined;
  readonly onFields: (fields: JsonObject) => void;
  readonly secret: string;
  readonly onSecret: (secret: string) => void;
  readonly errorAt: (name: string) => string | undefined;
  readonly onRemove: (() => void) | undefined;
}

function ProviderKey(props: ProviderKeyProps) {
  const { fields, index, keyState, onFields, secret, onSecret, errorAt, onRemove } = props;
  const set = fieldSetter(fields, onFields);
  const number = (name: string, label: string, placeholder: string) => (
    <NumberField
      label={label}
      min="1"
      placeholder={placeholder}
      value={numberOf(fields[name])}
      onNumber={(value) => set(name, value)}
      error={errorAt(name)}
    />
  );
  return (
    <fieldset class="fields">
      <legend>Key {index + 1}</legend>
      {keyState && (
        <div class="key-state">
          <ProviderKeyState keyState={keyState} />
          {keyState.message !== null && <p class="note bad">{keyState.message}</p>}
        </div>
      )}
      <div class="pair">
        <TextField
          label="Name"
          value={textOf(fields.name)}
          onValue={(text) => set('name', text)}
          error={errorAt('name')}
          required
        />
        {number('weight', 'Weight', '1')}
      </div>
      <SecretField
        label={textOf(fields.key)}
        value={secret}
        onValue={onSecret}
        error={errorAt('key')}
      />
      <div class="pair">
        {number('requests_per_minute', 'Requests per minute', 'no limit')}
        {number('concurrent_requests', 'Concurrent requests', 'no limit')}
      </div>
      <div class="row">
        <Checkbox
          label="Disabled"
          checked={fields.disabled === true}
          onChange={(isDisabled) => set('disabled', isDisabled || undefined)}
        />
        {onRemove && (
          <RowAction text="Remove" label={`Remove key ${index + 1}`} onClick={onRemove} />
        )}
      </div>
    </fieldset>
  );
}

function newName(names: readonly unknown[]): string {
  let number = names.length + 1;
  while (names.includes(`key-${number}`)) number += 1;
  return `key-${number}`;
}

/** Removes the secret of one key, and gives those after it their new paths. */
function withoutKey(secrets: ReadonlyMap<string, string>, removed: number) {
  const result = new Map<string, string>();
  for (const [path, secret] of secrets) {
    const index = Number(keyField.exec(path)?.[1]);
    if (index === removed) continue;
    result.set(index > removed ? `api_keys[${index - 1}].key` : path, secret);
  }
  return result;
}
