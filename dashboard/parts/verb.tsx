interface VerbProps {
  readonly text: string;
  /** The text and what it is done to, for whoever hears the button without its row. */
  readonly label: string;
  readonly onClick: () => void;
}

/** At the end of a row: something that can be done with it. */
export function Verb({ text, label, onClick }: VerbProps) {
  return (
    <button type="button" class="link" aria-label={label} onClick={onClick}>
      {text}
    </button>
  );
}
