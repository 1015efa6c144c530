import type { DialectName, WorkloadName } from '../../src/config/provider-schema.ts';
import { itemsOf, type JsonObject, textOf } from '../../src/core/json.ts';
import { NumberField, SelectField, TextField } from '../components/field.tsx';
import { type FormPartProps, fieldSetter, numberOf } from '../config-form.ts';
import { isProviderKeyField, ProviderKeys, SecretField } from './configuration-provider-keys.tsx';

const dialects: Readonly<Record<DialectName, string>> = {
  openai: 'OpenAI Chat Completions',
  'openai-responses': 'OpenAI Responses',
  anthropic: 'Anthropic Messages',
  gemini: 'Google Gemini',
  bedrock: 'AWS Bedrock',
  cohere: 'Cohere',
  siliconflow: 'SiliconFlow',
};

const workloads: Readonly<Record<WorkloadName, string>> = {
  aws: 'AWS credentials of the machine or container',
  aws_instance: 'AWS instance metadata only',
  google: 'Google credentials of the machine or container',
  google_metadata: 'Google metadata server only',
};

const credentialKinds = {
  api_key: 'One API key',
  api_keys: 'Several API keys',
  none: 'None',
  ...workloads,
};

function credentialKind({ api_key, api_keys, credentials }: JsonObject): string {
  if (api_keys !== undefined) return 'api_keys';
  if (credentials !== undefined) return textOf(credentials);
  return api_key === null ? 'none' : 'api_key';
}

/** Returns the document with another kind of credentials. Its keys have to be entered again. */
function withCredentials(document: JsonObject, kind: string): JsonObject {
  const { api_key: _, api_keys: __, credentials: ___, ...rest } = document;
  if (kind === 'api_key') return rest;
  if (kind === 'none') return { ...rest, api_key: null };
  return kind === 'api_keys'
    ? { ...rest, api_keys: [{ name: 'key-1' }, { name: 'key-2' }] }
    : { ...rest, credentials: kind };
}

const fieldNames = new Set(['base_url', 'timeout_ms', 'idle_timeout_ms']);

export function isProviderField(path: string, document: JsonObject): boolean {
  if (path === 'api_key') return credentialKind(document) === 'api_key';
  return fieldNames.has(path) || isProviderKeyField(path, itemsOf(document.api_keys).length);
}

export function ProviderFields(props: FormPartProps) {
  const { document, onDocument, onSecrets, errorAt } = props;
  const set = fieldSetter(document, onDocument);
  const kind = credentialKind(document);
  const numberField = (name: string, title: string) => (
    <NumberField
      label={title}
      min="1"
      max="3600000"
      placeholder="default"
      value={numberOf(document[name])}
      onNumber={(value) => set(name, value)}
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
      <SelectField
        label="Credentials"
        value={kind}
        onValue={(value) => {
          onSecrets(new Map());
          onDocument(withCredentials(document, value));
        }}
        options={Object.entries(credentialKinds)}
      />
      {kind === 'api_key' && <OnlyKey {...props} />}
      {kind === 'api_keys' && <ProviderKeys {...props} />}
      <div class="pair">
        {numberField('timeout_ms', 'First byte within (ms)')}
        {numberField('idle_timeout_ms', 'Silence at most (ms)')}
      </div>
    </>
  );
}

function OnlyKey({ document, secrets, onSecrets, errorAt }: FormPartProps) {
  return (
    <SecretField
      label={textOf(document.api_key)}
      value={secrets.get('api_key') ?? ''}
      onValue={(secret) => onSecrets(new Map([['api_key', secret]]))}
      error={errorAt('api_key')}
    />
  );
}
