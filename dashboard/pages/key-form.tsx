import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { CopyButton } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Checkbox, Form, SelectField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Key, Scope } from '../shapes.ts';

interface KeyFormProps {
  /** The key to edit. Undefined to create a key. */
  readonly keyObject?: Key;
  /** The API path of the keys. */
  readonly path: string;
  readonly onDone: (issued?: IssuedKey) => void;
  readonly onClose: () => void;
}

const resets = [
  ['', 'Never'],
  ['daily', 'Every day'],
  ['weekly', 'Every Monday'],
  ['monthly', 'Every month'],
] as const;

const cacheModes = [
  ['', 'Default'],
  ['off', 'Off'],
  ['auto', 'Auto'],
  ['always', 'Always'],
] as const;

const scopes = [
  'chat',
  'embeddings',
  'audio',
  'images',
  'jobs',
  'customer',
] as const satisfies readonly Scope[];

interface Values {
  readonly name: string;
  readonly limit: string;
  readonly limit_reset: string;
  readonly expires: string;
  readonly models: string;
  readonly scopes: readonly string[];
  readonly requests_per_minute: string;
  readonly cache: string;
  readonly management: boolean;
}

function valuesOf(key: Key | undefined): Values {
  return {
    name: key?.name ?? '',
    limit: key?.limit == null ? '' : String(key.limit),
    limit_reset: key?.limit_reset ?? '',
    expires: key?.expires_at?.slice(0, 10) ?? '',
    models: key?.models?.join(', ') ?? '',
    scopes: key?.scopes ?? scopes,
    requests_per_minute: key?.requests_per_minute == null ? '' : String(key.requests_per_minute),
    cache: key?.cache ?? '',
    management: false,
  };
}

type Body = Readonly<Record<string, unknown>>;

/** Builds the request body. Empty fields become null, so that an edit can remove a restriction. */
function bodyOf(values: Values): Body {
  const models = values.models.split(/[\s,]+/).filter((text) => text !== '');
  const number = (text: string) => (text === '' ? null : Number(text));
  const hasAll = values.scopes.length === scopes.length;
  return {
    name: values.name.trim(),
    limit: number(values.limit),
    limit_reset: values.limit === '' || values.limit_reset === '' ? null : values.limit_reset,
    // The key still works on the chosen day.
    expires_at: values.expires === '' ? null : `${values.expires}T23:59:59Z`,
    models: models.length === 0 ? null : models,
    scopes: hasAll ? null : values.scopes,
    requests_per_minute: number(values.requests_per_minute),
    cache: values.cache === '' ? null : values.cache,
    ...(values.management ? { management: true } : {}),
  };
}

/** Returns only changed fields, because an unchanged expiry in the past would be rejected. */
function changesOf(values: Values, key: Key): Body {
  const previous = bodyOf(valuesOf(key));
  const isChanged = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(previous[name]);
  return Object.fromEntries(Object.entries(bodyOf(values)).filter(isChanged));
}

export function KeyForm({ keyObject, path, onDone, onClose }: KeyFormProps) {
  const { key } = useSession();
  const [values, setValues] = useState(() => valuesOf(keyObject));
  const action = useAction();
  const set = (change: Partial<Values>) => setValues({ ...values, ...change });
  const submit = () =>
    action.run(async () => {
      if (keyObject) {
        const body = changesOf(values, keyObject);
        await requestJson(`${path}/${keyObject.id}`, { key, method: 'PATCH', body });
        return onDone();
      }
      onDone(await requestJson<IssuedKey>(path, { key, method: 'POST', body: bodyOf(values) }));
    });
  return (
    <Dialog title={keyObject ? 'Edit key' : 'Create a key'} onClose={onClose}>
      <Form onSubmit={submit}>
        <TextField
          label="Name"
          placeholder="The app that uses it"
          value={values.name}
          onValue={(name) => set({ name })}
          required
        />
        <SpendingFields values={values} set={set} />
        {keyObject && <KeyId id={keyObject.id} />}
        <details>
          <summary>More settings</summary>
          <AccessFields values={values} set={set} isNew={keyObject === undefined} />
        </details>
        <FormEnd submitLabel={keyObject ? 'Save' : 'Create'} action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

/** The key's ID, which the API and the log filters use. It isn't secret. */
function KeyId({ id }: { readonly id: string }) {
  return (
    <div class="field">
      <span class="hint">Key ID</span>
      <span class="id-line">
        <code>{id}</code>
        <CopyButton text={id} label="key ID" />
      </span>
    </div>
  );
}

interface SectionProps {
  readonly values: Values;
  readonly set: (change: Partial<Values>) => void;
}

function SpendingFields({ values, set }: SectionProps) {
  return (
    <div class="pair">
      <TextField
        label="Credit limit"
        type="number"
        min="0"
        step="1"
        placeholder="no limit"
        value={values.limit}
        onValue={(limit) => set({ limit })}
      />
      <SelectField
        label="Resets"
        value={values.limit_reset}
        onValue={(limit_reset) => set({ limit_reset })}
        options={resets}
      />
      <TextField
        label="Last valid day (UTC)"
        type="date"
        value={values.expires}
        onValue={(expires) => set({ expires })}
      />
    </div>
  );
}

function AccessFields({ values, set, isNew }: SectionProps & { readonly isNew: boolean }) {
  const toggle = (scope: Scope) => (isOn: boolean) =>
    set({ scopes: scopes.filter((one) => (one === scope ? isOn : values.scopes.includes(one))) });
  return (
    <>
      <TextField
        label="Allowed models"
        placeholder="all models"
        hint="Comma-separated aliases. A trailing * matches any ending."
        value={values.models}
        onValue={(models) => set({ models })}
      />
      <div class="pair">
        <TextField
          label="Requests per minute"
          type="number"
          min="1"
          placeholder="default"
          value={values.requests_per_minute}
          onValue={(requests_per_minute) => set({ requests_per_minute })}
        />
        <SelectField
          label="Response cache"
          value={values.cache}
          onValue={(cache) => set({ cache })}
          options={cacheModes}
        />
      </div>
      <fieldset class="checkboxes">
        <legend>Scopes</legend>
        {scopes.map((scope) => (
          <Checkbox
            key={scope}
            label={scope}
            checked={values.scopes.includes(scope)}
            onChange={toggle(scope)}
          />
        ))}
      </fieldset>
      {isNew && (
        <Checkbox
          label="Management key (manages keys, can't call models)"
          checked={values.management}
          onChange={(management) => set({ management })}
        />
      )}
    </>
  );
}
