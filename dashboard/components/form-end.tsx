import type { ComponentChildren } from 'preact';
import type { Action } from '../load.ts';
import { ErrorNote } from './feedback.tsx';

interface FormEndProps {
  readonly submitLabel: string;
  /** The action that runs when the form is submitted. */
  readonly action: Action;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** The end of a form in a dialog: the error, and the buttons to cancel or submit. */
export function FormEnd({ submitLabel, action, onClose, children }: FormEndProps) {
  return (
    <>
      <ErrorNote message={action.error} />
      {children}
      <footer class="buttons">
        <button type="button" class="secondary" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={action.busy}>
          {submitLabel}
        </button>
      </footer>
    </>
  );
}
