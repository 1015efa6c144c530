import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';

async function toClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text);
  }
}

/** Copies text without the Clipboard API, which browsers offer only over TLS. */
function copyBySelection(text: string): void {
  const area = document.createElement('textarea');
  area.value = text;
  // Only text inside an open dialog can be selected.
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [isDone, setDone] = useState(false);
  const copy = () => {
    void toClipboard(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1_600);
    });
  };
  return (
    <button type="button" class="secondary small" onClick={copy}>
      <Icon name={isDone ? 'check' : 'copy'} />
      <span aria-live="polite">{isDone ? 'Copied' : 'Copy'}</span>
      <span class="visually-hidden">{label}</span>
    </button>
  );
}

const rowsMax = 18;

interface CodeLineProps {
  readonly text: string;
  readonly label: string;
  /** Wraps the text, so that a long secret is visible in full. */
  readonly isWrapped?: boolean;
}

/** Text to copy, in a text field that can be scrolled with the keyboard. */
export function CodeLine({ text, label, isWrapped = false }: CodeLineProps) {
  const rows = isWrapped ? 2 : Math.min(rowsMax, text.split('\n').length);
  return (
    <div class="code">
      <textarea
        readOnly
        wrap={isWrapped ? 'soft' : 'off'}
        rows={rows}
        spellcheck={false}
        aria-label={label}
        value={text}
      />
      <CopyButton text={text} label={label} />
    </div>
  );
}
