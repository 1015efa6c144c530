import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { isObject, type JsonObject, parseJson } from '../../src/core/json.ts';
import { Form, JsonField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { documentOf, type FormPartProps } from '../config-form.ts';
import { type ConfigKind, configPath } from '../config-kinds.ts';
import { useSaving } from '../saving.ts';
import type { ConfigObject } from '../shapes.ts';
import { AliasFields, isAliasField } from './configuration-alias.tsx';
import { Conflict } from './configuration-conflict.tsx';
import { isModelField, ModelFields, modelProblems } from './configuration-model.tsx';
import { isPlanField, PlanFields, planProblems } from './configuration-plan.tsx';
import { isProviderField, ProviderFields } from './configuration-provider.tsx';

interface FormPart {
  readonly component: (props: FormPartProps) => VNode;
  /** True if one of the fields shows the errors of this path. */
  readonly isField: (path: string, document: JsonObject) => boolean;
  /** Returns what is wrong with the fields, by path. */
  readonly problemsOf?: (document: JsonObject) => ReadonlyMap<string, string>;
}

/** The fields of a kind of object that have a form. Everything else is edited as JSON. */
export const formParts: Readonly<Record<string, FormPart>> = {
  providers: { component: ProviderFields, isField: isProviderField },
  models: { component: ModelFields, isField: isModelField, problemsOf: modelProblems },
  aliases: { component: AliasFields, isField: isAliasField },
  plans: { component: PlanFields, isField: isPlanField, problemsOf: planProblems },
};

export interface EditorProps {
  readonly kind: ConfigKind;
  /** '' for a new object. */
  readonly name: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

interface ObjectFormProps extends EditorProps {
  readonly current: ConfigObject | null;
}

const textOf = (document: object) => JSON.stringify(document, null, 2);

function initialText({ kind, current }: ObjectFormProps): string {
  return textOf(current ? documentOf(current) : (kind.example?.document ?? {}));
}
export function ObjectForm(props: ObjectFormProps) {
  const { kind, current, onClose, onDone } = props;
  const saving = useSaving<ConfigObject>(onDone);
  const { action, errors, theirs } = saving;
  const [base, setBase] = useState(current);
  const [name, setName] = useState(current?.name ?? '');
  const [text, setText] = useState(() => initialText(props));
  const [secrets, setSecrets] = useState<ReadonlyMap<string, string>>(new Map());
  const parsed = parseJson(text);
  const document = isObject(parsed) ? parsed : undefined;
  // What the fields show while the JSON is invalid, because it is still being typed.
  const valid = useRef<JsonObject>({});
  if (document) valid.current = document;
  const part = formParts[kind.plural];
  const save = (version: number | null) => {
    if (!document) return;
    const problems = part?.problemsOf?.(document) ?? new Map();
    const body = withSecrets(document, secrets);
    if (problems.size > 0) saving.fail(problems);
    else saving.save({ path: configPath(kind, name.trim()), body, version });
  };
  const show = (object: ConfigObject, changed: JsonObject) => {
    setBase(object);
    setText(textOf(changed));
    saving.forgetConflict();
  };
  const discard = () => {
    setSecrets(new Map());
    if (theirs) show(theirs, documentOf(theirs));
    else onDone();
  };
  const { jsonError, formError } = otherErrors(errors, kind, document, action.error);
  return (
    <Form onSubmit={() => save(base?.version ?? null)}>
      {current?.owner === 'built_in' && <BuiltInNote kind={kind} />}
      {current === null && (
        <NameField kind={kind} value={name} onValue={setName} error={errors.get('name')} />
      )}
      {part && (
        <fieldset class="form" disabled={!document}>
          <part.component
            document={valid.current}
            onDocument={(changed) => setText(textOf(changed))}
            secrets={secrets}
            onSecrets={setSecrets}
            errorAt={(path) => errors.get(path)}
            current={base}
          />
        </fieldset>
      )}
      <JsonSection isOptional={part !== undefined} text={text} onText={setText} error={jsonError} />
      {theirs !== undefined && document && (
        <Conflict
          base={base ? documentOf(base) : {}}
          mine={document}
          theirs={theirs && { ...theirs, document: documentOf(theirs) }}
          onKeepMine={() => save(theirs?.version ?? null)}
          onCombine={(combined) => theirs && show(theirs, combined)}
          onDiscard={discard}
        />
      )}
      <FormEnd
        submitLabel={base?.owner === 'store' ? 'Save' : 'Create'}
        action={{ ...action, error: formError }}
        onClose={onClose}
      />
    </Form>
  );
}

/** Returns the errors of fields that have no input, and those that concern no field. */
function otherErrors(
  errors: ReadonlyMap<string, string>,
  kind: ConfigKind,
  document: JsonObject | undefined,
  formError: string | undefined,
) {
  if (!document) return { jsonError: 'This is not a valid JSON object.', formError };
  const [[path, error] = ['', undefined]] = errors;
  if (error === undefined || path === '') return { jsonError: undefined, formError };
  const isAtInput = path === 'name' || formParts[kind.plural]?.isField(path, document) === true;
  return { jsonError: isAtInput ? undefined : error, formError: undefined };
}

interface NameFieldProps {
  readonly kind: ConfigKind;
  readonly value: string;
  readonly onValue: (name: string) => void;
  readonly error: string | undefined;
}

function NameField({ kind, ...rest }: NameFieldProps) {
  const label = kind.plural === 'models' ? 'ID' : 'Name';
  return <TextField label={label} placeholder={kind.example?.name ?? ''} {...rest} required />;
}

const keyPath = /^api_keys\[(\d+)\]\.key$/;

function withSecrets(document: JsonObject, secrets: ReadonlyMap<string, string>): JsonObject {
  let result = document;
  for (const [path, secret] of secrets) {
    const index = keyPath.exec(path)?.[1];
    if (secret === '') continue;
    if (index === undefined) result = { ...result, [path]: secret };
    else if (Array.isArray(result.api_keys)) {
      const keys = result.api_keys.map((key: unknown, at) =>
        at === Number(index) && isObject(key) ? { ...key, key: secret } : key,
      );
      result = { ...result, api_keys: keys };
    }
  }
  return result;
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

interface JsonSectionProps {
  /** True if other fields come first, so that most users don't need the JSON. */
  readonly isOptional: boolean;
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly error: string | undefined;
}

function JsonSection({ isOptional, text, onText, error }: JsonSectionProps) {
  const field = (
    <JsonField
      label="All fields as JSON"
      value={text}
      onValue={onText}
      error={error}
      rows={Math.min(26, Math.max(8, text.split('\n').length + 1))}
    />
  );
  const [isOpen, setOpen] = useState(false);
  if (!isOptional) return field;
  // It stays open when the error is gone, because the user may still be typing.
  return (
    <details
      open={isOpen || error !== undefined}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>More fields</summary>
      {field}
    </details>
  );
}
