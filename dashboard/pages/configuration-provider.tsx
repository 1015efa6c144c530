import type { DialectName } from '../../src/config/provider-schema.ts';
import { type JsonObject, textOf } from '../../src/core/json.ts';
import { SelectField, TextField } from '../components/field.tsx';

const dialects: Readonly<Record<DialectName, string>> = {
  openai: 'OpenAI Chat Completions',
  'openai-responses': 'OpenAI Responses',
  anthropic: 'Anthropic Messages',
  gemini: 'Google Gemini',
  bedrock: 'AWS Bedrock',
  cohere: 'Cohere',
  siliconflow: 'SiliconFlow',
};

interface ProviderFieldsProps {
  readonly document: JsonObject;
  readonly onDocument: (document: JsonObject) => void;
  /** A new API key. It isn't part of the document, which is shown as JSON. */
  readonly secret: string;
  readonly onSecret: (secret: string) => void;
  readonly errorAt: (field: string) => string | undefined;
}

/** The fields of a provider that have a form. */
export const providerFieldNames: ReadonlySet<string> = new Set([
  'base_url',
  'api_key',
  'timeout_ms',
  'idle_timeout_ms',
]);

export function ProviderFields(props: ProviderFieldsProps) {
  const { document, onDocument, secret, onSecret, errorAt } = props;
  const set = (name: string, value: unknown) => {
    const { [name]: _, ...rest } = document;
    onDocument(value === undefined ? rest : { ...document, [name]: value });
  };
  const label = textOf(document.api_key);
  const numberField = (name: string, title: string) => (
    <TextField
      label={title}
      type="number"
      min="1"
      max="3600000"
      placeholder="default"
      value={String(document[name] ?? '')}
      onValue={(value) => set(name, value === '' ? undefined : Number(value))}
      error={errorAt(name)}
    />
  );
  return (
    <>
      <SelectField
        label="Dialect"
        value={textOf(document.dialect)}
        onValue={(value) => set('dialect', value)}
        options={Object.entries(dialects)}
      />
      <TextField
        label="Base URL"
        type="url"
        placeholder="https://api.example.com/v1"
        value={textOf(document.base_url)}
        onValue={(value) => set('base_url', value)}
        error={errorAt('base_url')}
      />
      <TextField
        label="API key"
        type="password"
        placeholder={label}
        hint={
          label === ''
            ? 'Stored encrypted, never shown again.'
            : `Stored encrypted, never shown again. Leave it empty to keep the key ${label}.`
        }
        value={secret}
        onValue={onSecret}
        error={errorAt('api_key')}
      />
      <div class="pair">
        {numberField('timeout_ms', 'First byte within (ms)')}
        {numberField('idle_timeout_ms', 'Silence at most (ms)')}
      </div>
    </>
  );
}
