import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { isObject, type JsonObject, parseJson } from '../../src/core/json.ts';
import { ApiError, requestData, requestJson } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Loading } from '../components/feedback.tsx';
import { Form, JsonField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { type ConfigKind, configPath } from '../config-kinds.ts';
import { useAction, useLoad } from '../load.ts';
import { setQuery } from '../route.ts';
import { useSession } from '../session.ts';
import type { ConfigObject } from '../shapes.ts';
import { ProviderFields, providerFieldNames } from './configuration-provider.tsx';

interface EditorProps {
  readonly kind: ConfigKind;
  /** '' for a new object. */
  readonly name: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Edits an object of the store, replaces a built-in one, or shows one of the file. */
export function ConfigEditor(props: EditorProps) {
  const { kind, name, onClose } = props;
  const { key } = useSession();
  const path = configPath(kind, name);
  const loaded = useLoad(`edit ${path}`, async (signal) =>
    name === '' ? null : requestData<ConfigObject>(path, { key, signal }),
  );
  const { data: current, reload } = loaded;
  const title = name === '' ? `Create ${kind.one}` : name;
  return (
    <Dialog title={title} variant="sheet" onClose={onClose}>
      {name !== '' && <Loading loaded={loaded} text={`Loading ${name}…`} />}
      {current?.owner === 'file' && <FileObject kind={kind} object={current} />}
      {current !== undefined && current?.owner !== 'file' && (
        <Fields key={String(current?.version)} {...props} current={current} onReload={reload} />
      )}
    </Dialog>
  );
}

/** Settings have a value instead of a document. */
function documentOf({ config, value }: ConfigObject): object {
  return config ?? { value };
}

const textOf = (document: object) => JSON.stringify(document, null, 2);

function FileObject({
  kind,
  object,
}: {
  readonly kind: ConfigKind;
  readonly object: ConfigObject;
}) {
  return (
    <>
      <p class="note">
        This {kind.noun} is set in <code>{object.source}</code>. Change it there, or remove it from
        the file to manage it here.
      </p>
      <JsonField
        label="All fields as JSON"
        value={textOf(documentOf(object))}
        onValue={() => undefined}
        readOnly
      />
    </>
  );
}

type FieldsProps = EditorProps & {
  readonly current: ConfigObject | null;
  readonly onReload: () => void;
};

/** Sends the document, based on the version that is shown. */
function useSave({ kind, current, onDone }: FieldsProps) {
  const { key } = useSession();
  const [failure, setFailure] = useState<ApiError>();
  const action = useAction();
  const version = current?.version ?? null;
  const save = (name: string, body: object) =>
    action.run(async () => {
      setFailure(undefined);
      const headers = version === null ? { 'if-none-match': '*' } : { 'if-match': `"${version}"` };
      try {
        await requestJson(configPath(kind, name), { key, method: 'PUT', body, headers });
      } catch (error) {
        if (error instanceof ApiError) setFailure(error);
        throw error;
      }
      onDone();
    });
  return { action, failure, save };
}

const outdated = 412;

function Fields(props: FieldsProps) {
  const { kind, current, onReload, onClose } = props;
  const { action, failure, save } = useSave(props);
  const [name, setName] = useState(current?.name ?? '');
  const [text, setText] = useState(() =>
    textOf(current ? documentOf(current) : (kind.example?.document ?? {})),
  );
  const [secret, setSecret] = useState('');
  const parsed = parseJson(text);
  const document = isObject(parsed) ? parsed : undefined;
  const isProvider = kind.plural === 'providers';
  const submit = () => {
    if (document) save(name.trim(), secret === '' ? document : { ...document, api_key: secret });
  };
  const reload = () =>
    current?.owner === 'store' ? onReload() : setQuery({ edit: name.trim() }, 'replace', true);
  const errorField = errorFieldOf(failure?.param, isProvider);
  const errorAt = (one: string) => (errorField === one ? failure?.message : undefined);
  const jsonError = document ? errorAt('json') : 'This is not a valid JSON object.';
  return (
    <Form onSubmit={submit}>
      {current?.owner === 'built_in' && <BuiltInNote kind={kind} />}
      {current === null && (
        <TextField
          label={kind.plural === 'models' ? 'ID' : 'Name'}
          placeholder={kind.example?.name ?? ''}
          value={name}
          onValue={setName}
          error={errorAt('name')}
          required
        />
      )}
      {isProvider && (
        <ProviderFields
          document={document ?? {}}
          onDocument={(changed: JsonObject) => setText(textOf(changed))}
          secret={secret}
          onSecret={setSecret}
          errorAt={errorAt}
        />
      )}
      <JsonSection isOptional={isProvider} hasError={jsonError !== undefined}>
        <JsonField
          label="All fields as JSON"
          value={text}
          onValue={setText}
          error={jsonError}
          rows={Math.min(26, Math.max(8, text.split('\n').length + 1))}
        />
      </JsonSection>
      <FormEnd
        submitLabel={current?.owner === 'store' ? 'Save' : 'Create'}
        action={{ ...action, error: errorField === undefined ? action.error : undefined }}
        onClose={onClose}
      >
        {failure?.status === outdated && (
          <p>
            <button type="button" class="link" onClick={reload}>
              Discard my changes and load the current version
            </button>
          </p>
        )}
      </FormEnd>
    </Form>
  );
}

function BuiltInNote({ kind }: { readonly kind: ConfigKind }) {
  return (
    <p class="note">
      {kind.example
        ? `This ${kind.noun} is built in. Your version replaces it until you delete it.`
        : 'This is the default. Your value applies until you delete it.'}
    </p>
  );
}

/** Returns the field that shows an error, or undefined if the end of the form does. */
function errorFieldOf(param: string | undefined, isProvider: boolean): string | undefined {
  if (param === undefined || param === 'If-Match' || param === 'If-None-Match') return undefined;
  return isProvider && providerFieldNames.has(param) ? param : 'json';
}

interface JsonSectionProps {
  /** True if other fields come first, so that most users don't need the JSON. */
  readonly isOptional: boolean;
  readonly hasError: boolean;
  readonly children: ComponentChildren;
}

function JsonSection({ isOptional, hasError, children }: JsonSectionProps) {
  if (!isOptional) return <>{children}</>;
  return (
    <details open={hasError}>
      <summary>More fields</summary>
      {children}
    </details>
  );
}
