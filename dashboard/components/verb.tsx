interface VerbProps {
  readonly text: string;
  /**
   * The text with the thing it acts on, for screen readers, which read the button without its row.
   */
  readonly label: string;
  readonly onClick: () => void;
}

/** A button at the end of a row for an action on that row. */
export function Verb({ text, label, onClick }: VerbProps) {
  return (
    <button type="button" class="link" aria-label={label} onClick={onClick}>
      {text}
    </button>
  );
}
