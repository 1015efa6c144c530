interface RowActionProps {
  readonly text: string;
  /** The text with the name of the row, for screen readers. */
  readonly label: string;
  readonly onClick: () => void;
}

/** A button in a row of a table or form for an action on that row. */
export function RowAction({ text, label, onClick }: RowActionProps) {
  return (
    <button type="button" class="link" aria-label={label} onClick={onClick}>
      {text}
    </button>
  );
}
