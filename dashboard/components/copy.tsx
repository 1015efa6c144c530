import { useState } from 'preact/hooks';
import { Icon } from './icon.tsx';

async function toClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyTheOldWay(text);
  }
}

/** The Clipboard API needs TLS; without it the text is selected and copied by a command. */
function copyTheOldWay(text: string): void {
  const area = document.createElement('textarea');
  area.value = text;
  // While a dialog is open, only text inside it can be selected.
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
    <button type="button" class="quiet small" onClick={copy}>
      <Icon name={isDone ? 'check' : 'copy'} />
      <span aria-live="polite">{isDone ? 'Copied' : 'Copy'}</span>
      <span class="unseen">{label}</span>
    </button>
  );
}

const rowsMax = 18;

interface CodeLineProps {
  readonly text: string;
  readonly label: string;
  /** For one long word, such as a secret, that must be seen whole: it wraps into a second row. */
  readonly isBroken?: boolean;
}

/** A text to copy. It is in a text field, which can also be scrolled by keyboard. */
export function CodeLine({ text, label, isBroken = false }: CodeLineProps) {
  const rows = isBroken ? 2 : Math.min(rowsMax, text.split('\n').length);
  return (
    <div class="code">
      <textarea
        readOnly
        wrap={isBroken ? 'soft' : 'off'}
        rows={rows}
        spellcheck={false}
        aria-label={label}
        value={text}
      />
      <CopyButton text={text} label={label} />
    </div>
  );
}
