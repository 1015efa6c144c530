import { useState } from 'preact/hooks';
import { CodeLine } from '../components/copy.tsx';
import { anthropicSnippet, type ChatBody, curl, openAiSnippet } from '../snippets.ts';

const forms = {
  curl: (body: ChatBody) => curl('POST', '/v1/chat/completions', { ...body, stream: true }),
  'openai SDK': openAiSnippet,
  'Anthropic SDK': anthropicSnippet,
} as const;

type FormName = keyof typeof forms;
const names = Object.keys(forms) as FormName[];

/** The request for use elsewhere: everything said so far and the message being written. */
export function CopyAs({ body }: { readonly body: ChatBody }) {
  const [form, setForm] = useState<FormName>('curl');
  return (
    <details class="copy-as">
      <summary>Copy as code</summary>
      <fieldset class="segments">
        <legend class="unseen">Form of the request</legend>
        {names.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={name === form}
            onClick={() => setForm(name)}
          >
            {name}
          </button>
        ))}
      </fieldset>
      <CodeLine text={forms[form](body)} label={form} />
    </details>
  );
}
