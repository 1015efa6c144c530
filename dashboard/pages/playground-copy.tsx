import { useState } from 'preact/hooks';
import { CodeLine } from '../components/copy.tsx';
import { anthropicSnippet, type ChatBody, curl, openAiSnippet } from '../snippets.ts';

const formats = {
  curl: (body: ChatBody) => curl('POST', '/v1/chat/completions', { ...body, stream: true }),
  'OpenAI SDK': openAiSnippet,
  'Anthropic SDK': anthropicSnippet,
} as const;

type FormatName = keyof typeof formats;
const names = Object.keys(formats) as FormatName[];

/** Shows the request as code: the conversation so far and the message being written. */
export function CopyAs({ body }: { readonly body: ChatBody }) {
  const [format, setFormat] = useState<FormatName>('curl');
  return (
    <details class="copy-as">
      <summary>Copy as code</summary>
      <fieldset class="segments">
        <legend class="visually-hidden">Code format</legend>
        {names.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={name === format}
            onClick={() => setFormat(name)}
          >
            {name}
          </button>
        ))}
      </fieldset>
      <CodeLine text={formats[format](body)} label={format} />
    </details>
  );
}
