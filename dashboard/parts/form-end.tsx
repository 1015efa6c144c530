import type { ComponentChildren } from 'preact';
import type { Action } from '../load.ts';
import { ErrorNote } from './notes.tsx';

interface FormEndProps {
  readonly verb: string;
  /** What the form starts when it is sent. */
  readonly action: Action;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** The last lines of a form in a dialog: why it failed, and the way out or on. */
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
