import { Icon } from './icon.tsx';

interface AddButtonProps {
  readonly text: string;
  readonly onClick: () => void;
}

/** The button beside a list's heading that adds an entry. */
export function AddButton({ text, onClick }: AddButtonProps) {
  return (
    <button type="button" class="primary" onClick={onClick}>
      <Icon name="plus" />
      {text}
    </button>
  );
}
