import { useState } from 'preact/hooks';
import { requestJson } from '../api.ts';
import { CopyButton } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Form, SelectField, TextField, Tick } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { useAction } from '../load.ts';
import { useSession } from '../session.ts';
import type { IssuedKey, Key } from '../shapes.ts';

interface KeyFormProps {
  /** The key to change; without one, a new one is made. */
  readonly keyObject?: Key;
  /** The path for the operator, who makes keys for a tenant. */
  readonly path?: string;
  readonly onDone: (issued?: IssuedKey) => void;
  readonly onClose: () => void;
}

const resets = [
  ['', 'never'],
  ['daily', 'every day'],
  ['weekly', 'every Monday'],
  ['monthly', 'every month'],
] as const;

const cacheModes = [
  ['', 'the usual'],
  ['off', 'off'],
  ['auto', 'auto'],
  ['always', 'always'],
] as const;

const scopes = ['chat', 'embeddings', 'audio', 'images', 'jobs', 'customer'] as const;

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

/** Empty fields are sent as null, so that a change can also remove a restriction. */
function bodyOf(values: Values): Body {
  const models = values.models.split(/[\s,]+/).filter((text) => text !== '');
  const number = (text: string) => (text === '' ? null : Number(text));
  const isEvery = values.scopes.length === scopes.length;
  return {
    name: values.name.trim(),
    limit: number(values.limit),
    limit_reset: values.limit === '' || values.limit_reset === '' ? null : values.limit_reset,
    // The chosen day is the last day on which the key works.
    expires_at: values.expires === '' ? null : `${values.expires}T23:59:59Z`,
    models: models.length === 0 ? null : models,
    scopes: isEvery ? null : values.scopes,
    requests_per_minute: number(values.requests_per_minute),
    cache: values.cache === '' ? null : values.cache,
    ...(values.management ? { management: true } : {}),
  };
}

/** Only the changed fields: an expiry in the past, sent again unchanged, would be refused. */
function changesOf(values: Values, key: Key): Body {
  const before = bodyOf(valuesOf(key));
  const isNew = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(before[name]);
  return Object.fromEntries(Object.entries(bodyOf(values)).filter(isNew));
}

export function KeyForm({ keyObject, path, onDone, onClose }: KeyFormProps) {
  const { key } = useSession();
  const [values, setValues] = useState(() => valuesOf(keyObject));
  const action = useAction();
  const set = (change: Partial<Values>) => setValues({ ...values, ...change });
  const submit = () =>
    action.run(async () => {
      const to = path ?? '/api/v1/keys';
      if (keyObject) {
        const body = changesOf(values, keyObject);
        await requestJson(`${to}/${keyObject.id}`, { key, method: 'PATCH', body });
        return onDone();
      }
      onDone(await requestJson<IssuedKey>(to, { key, method: 'POST', body: bodyOf(values) }));
    });
  return (
    <Dialog title={keyObject ? 'Edit key' : 'Create a key'} onClose={onClose}>
      <Form onSubmit={submit}>
        <TextField
          label="Name"
          placeholder="Which application is it for?"
          value={values.name}
          onValue={(name) => set({ name })}
          required
        />
        <Spending values={values} set={set} />
        {keyObject && <KeyId id={keyObject.id} />}
        <details>
          <summary>More settings</summary>
          <Rights values={values} set={set} isNew={keyObject === undefined} />
        </details>
        <FormEnd verb={keyObject ? 'Save' : 'Create'} action={action} onClose={onClose} />
      </Form>
    </Dialog>
  );
}

/** The id by which the API and the filters of the log know the key; it is no secret. */
function KeyId({ id }: { readonly id: string }) {
  return (
    <div class="field">
      <span class="hint">Key id</span>
      <span class="id-line">
        <code>{id}</code>
        <CopyButton text={id} label="key id" />
      </span>
    </div>
  );
}

interface PartProps {
  readonly values: Values;
  readonly set: (change: Partial<Values>) => void;
}

function Spending({ values, set }: PartProps) {
  return (
    <div class="pair">
      <TextField
        label="Limit in credits"
        type="number"
        min="0"
        step="1"
        placeholder="none"
        value={values.limit}
        onValue={(limit) => set({ limit })}
      />
      <SelectField
        label="Limit starts again"
        value={values.limit_reset}
        onValue={(limit_reset) => set({ limit_reset })}
        options={resets}
      />
      <TextField
        label="Last day (UTC)"
        type="date"
        value={values.expires}
        onValue={(expires) => set({ expires })}
      />
    </div>
  );
}

function Rights({ values, set, isNew }: PartProps & { readonly isNew: boolean }) {
  const tick = (scope: string) => (isOn: boolean) =>
    set({ scopes: scopes.filter((one) => (one === scope ? isOn : values.scopes.includes(one))) });
  return (
    <>
      <TextField
        label="Models it may call"
        placeholder="all of them"
        hint="Aliases with commas between; a final * stands for any rest."
        value={values.models}
        onValue={(models) => set({ models })}
      />
      <div class="pair">
        <TextField
          label="Requests per minute"
          type="number"
          min="1"
          placeholder="the usual"
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
      <fieldset class="ticks">
        <legend>Scopes</legend>
        {scopes.map((scope) => (
          <Tick
            key={scope}
            label={scope}
            checked={values.scopes.includes(scope)}
            onTick={tick(scope)}
          />
        ))}
      </fieldset>
      {isNew && (
        <Tick
          label="A management key: manages keys, calls no models"
          checked={values.management}
          onTick={(management) => set({ management })}
        />
      )}
    </>
  );
}
