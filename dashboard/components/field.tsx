import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';

interface FieldProps {
  readonly label: string;
  readonly hint?: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

interface FieldErrorProps {
  readonly id: string;
  readonly message: string | undefined;
}

/** Why the gateway rejected a field, below it. */
function FieldError({ id, message }: FieldErrorProps) {
  if (message === undefined) return null;
  return (
    <small id={`${id}-error`} class="bad" role="alert">
      {message}
    </small>
  );
}

/** Connects a field with its error for screen readers. */
function errorAttributes({ id, message }: FieldErrorProps) {
  return message === undefined ? {} : { 'aria-invalid': true, 'aria-errormessage': `${id}-error` };
}

interface TextProps extends FieldProps {
  readonly error?: string | undefined;
  readonly type?: 'text' | 'password' | 'number' | 'date' | 'datetime-local' | 'search' | 'url';
  /** The keyboard to show on phones. `decimal` doesn't round what is typed, as `number` may. */
  readonly inputMode?: 'decimal' | 'numeric';
  readonly placeholder?: string;
  readonly required?: boolean;
  readonly min?: string;
  readonly max?: string;
  readonly step?: string;
  readonly suggestions?: readonly string[];
  /** The ID of suggestions that several fields share. */
  readonly list?: string;
  /** Called on Enter, or when the field loses the focus. */
  readonly onCommit?: (value: string) => void;
  readonly onBlur?: () => void;
}

export function TextField(props: TextProps) {
  const { label, hint, error, value, onValue, onCommit, suggestions, ...rest } = props;
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        // JSX types the attributes of each input type differently, hence the cast.
        type="text"
        {...(rest as object)}
        id={id}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onValue(event.currentTarget.value)}
        onChange={(event) => onCommit?.(event.currentTarget.value)}
        {...errorAttributes({ id, message: error })}
        {...(suggestions ? { list: `${id}-list` } : {})}
        {...(hint ? { 'aria-describedby': `${id}-hint` } : {})}
      />
      <FieldError id={id} message={error} />
      {suggestions && <Suggestions id={`${id}-list`} texts={suggestions} />}
      {hint && (
        <small id={`${id}-hint`} class="hint">
          {hint}
        </small>
      )}
    </div>
  );
}

interface SuggestionsProps {
  readonly id: string;
  readonly texts: readonly string[];
}

/** Suggestions for the fields that name it as their `list`. */
export function Suggestions({ id, texts }: SuggestionsProps) {
  return (
    <datalist id={id}>
      {texts.map((text) => (
        <option key={text} value={text} />
      ))}
    </datalist>
  );
}

/**
 * A text field whose value changes only when typing has ended, the field is cleared, or a
 * suggestion is chosen. It is for filters, because half a name would match nothing.
 */
export function CommittedTextField({ value, onValue, ...rest }: TextProps) {
  const [text, setText] = useState(value);
  const isTyping = useRef(false);
  useEffect(() => {
    // The value arrives with a delay, and the user may have continued typing.
    if (!isTyping.current) setText(value);
  }, [value]);
  const commit = (typed: string) => onValue(typed.trim());
  const type = (typed: string) => {
    isTyping.current = true;
    setText(typed);
    if (typed === '' || rest.suggestions?.includes(typed)) commit(typed);
  };
  const leave = () => {
    isTyping.current = false;
  };
  return <TextField {...rest} value={text} onValue={type} onCommit={commit} onBlur={leave} />;
}

export function AreaField(
  props: FieldProps & { readonly rows: number; readonly placeholder?: string },
) {
  const { label, hint, value, onValue, rows, placeholder = '' } = props;
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        placeholder={placeholder}
        spellcheck={false}
        onInput={(event) => onValue(event.currentTarget.value)}
        {...(hint ? { 'aria-describedby': `${id}-hint` } : {})}
      />
      {hint && (
        <small id={`${id}-hint`} class="hint">
          {hint}
        </small>
      )}
    </div>
  );
}

export type Option = readonly [value: string, text: string];

export function SelectField(props: FieldProps & { readonly options: readonly Option[] }) {
  const { label, hint, value, onValue, options } = props;
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
        {options.map(([name, text]) => (
          <option key={name} value={name} selected={name === value}>
            {text}
          </option>
        ))}
      </select>
      {hint && <small class="hint">{hint}</small>}
    </div>
  );
}

interface JsonProps extends FieldProps {
  readonly error?: string | undefined;
  readonly rows?: number;
  readonly readOnly?: boolean;
}

/** An editor for JSON, in a monospaced font. */
export function JsonField(props: JsonProps) {
  const { label, error, value, onValue, rows = 14, readOnly = false } = props;
  const id = useId();
  return (
    <div class="field json">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        readOnly={readOnly}
        spellcheck={false}
        onInput={(event) => onValue(event.currentTarget.value)}
        {...errorAttributes({ id, message: error })}
      />
      <FieldError id={id} message={error} />
    </div>
  );
}

interface NumberProps extends Omit<TextProps, 'value' | 'onValue' | 'type'> {
  readonly value: number | undefined;
  readonly onNumber: (value: number | undefined) => void;
}

const numberIn = (text: string) => (text === '' ? undefined : Number(text));

/** A field for a number that is stored as one. Prices have text fields, because they are exact. */
export function NumberField({ value, onNumber, ...rest }: NumberProps) {
  // The typed text, because the number of `1.0` would remove what is needed to type `1.05`.
  const [text, setText] = useState(String(value ?? ''));
  const shown = numberIn(text) === value ? text : String(value ?? '');
  const type = (typed: string) => {
    setText(typed);
    onNumber(numberIn(typed));
  };
  return <TextField {...rest} type="number" value={shown} onValue={type} />;
}

interface ListProps extends Omit<FieldProps, 'value' | 'onValue'> {
  readonly values: readonly string[];
  readonly onValues: (values: readonly string[]) => void;
  readonly placeholder?: string;
  readonly error?: string | undefined;
}

/** A text field for values that are separated by commas. */
export function ListField({ values, onValues, ...rest }: ListProps) {
  // The typed text, because the values don't have the comma after the last one.
  const [text, setText] = useState(() => values.join(', '));
  const type = (typed: string) => {
    setText(typed);
    onValues(typed.split(',').flatMap((part) => part.trim() || []));
  };
  return <TextField {...rest} value={text} onValue={type} />;
}

interface CheckboxProps {
  readonly label: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}

export function Checkbox({ label, checked, onChange }: CheckboxProps) {
  return (
    <label class="checkbox">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      {label}
    </label>
  );
}

interface FormProps {
  readonly onSubmit: () => void;
  readonly children: ComponentChildren;
  readonly class?: string;
}

export function Form({ onSubmit, children, class: name = 'form' }: FormProps) {
  return (
    <form
      class={name}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
      // Opens a collapsed section with an invalid field, so that its error is visible.
      onInvalidCapture={({ target }) => {
        if (target instanceof Element) target.closest('details')?.setAttribute('open', '');
      }}
    >
      {children}
    </form>
  );
}
