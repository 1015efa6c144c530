import { Icon } from './icon.tsx';

interface AddButtonProps {
  readonly text: string;
  readonly onClick: () => void;
}

/** Beside the head of a list: one more of what it lists. */
export function AddButton({ text, onClick }: AddButtonProps) {
  return (
    <button type="button" class="primary" onClick={onClick}>
      <Icon name="plus" />
      {text}
    </button>
  );
}
