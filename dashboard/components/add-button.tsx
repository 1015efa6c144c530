import { Icon } from './icon.tsx';

interface AddButtonProps {
  readonly text: string;
  readonly onClick: () => void;
}

/** The button in a heading that opens a form for a new entry. */
export function AddButton({ text, onClick }: AddButtonProps) {
  return (
    <button type="button" class="primary" onClick={onClick}>
      <Icon name="plus" />
      {text}
    </button>
  );
}
