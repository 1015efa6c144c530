import type { ComponentChildren } from 'preact';
import type { Action } from '../load.ts';
import { ErrorNote } from './notes.tsx';

interface FormEndProps {
  readonly verb: string;
  /** The action that sending the form starts. */
  readonly action: Action;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** The end of a form in a dialog: why it failed, and the buttons to cancel or submit. */
export function FormEnd({ verb, action, onClose, children }: FormEndProps) {
  return (
    <>
      <ErrorNote message={action.error} />
      {children}
      <footer class="buttons">
        <button type="button" class="quiet" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={action.busy}>
          {verb}
        </button>
      </footer>
    </>
  );
}
