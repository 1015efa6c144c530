import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { useAction } from '../load.ts';
import { useTitle } from '../title.ts';
import { Icon } from './icon.tsx';
import { ErrorNote } from './notes.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** A sheet lies along the right side and is as high as the window. */
  readonly form?: 'box' | 'sheet';
  /** The dialog closes only by its own buttons, because it shows something only once. */
  readonly isHeld?: boolean;
}

/**
 * The element focused before the first dialog opened: when a second dialog follows, the button in
 * the first that opened it is gone.
 */
let beneath: Element | null = null;

/** The browser's own dialog: it keeps the focus inside and closes on Escape. */
export function Dialog({ title, onClose, children, form = 'box', isHeld = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useTitle('dialog', title);
  // A layout effect runs before the next paint, so no key press is lost between.
  useLayoutEffect(() => {
    const element = dialog.current;
    const opener = document.activeElement;
    if (!document.querySelector('dialog:modal')) beneath = opener;
    element?.showModal();
    return () => {
      element?.close();
      // The dialog is about to leave the page, and the browser would not return the focus.
      const isThere = opener?.isConnected && opener !== document.body;
      const last = isThere ? opener : beneath;
      if (last instanceof HTMLElement) last.focus();
    };
  }, []);
  const isBegun = useRef(form === 'sheet');
  // Runs after each rendering until a field got the focus once: the field may appear only after
  // data is fetched.
  useLayoutEffect(() => {
    if (isBegun.current) return;
    const field = dialog.current?.querySelector(firstField);
    isBegun.current = field instanceof HTMLElement;
    if (field instanceof HTMLElement) field.focus();
  });
  return (
    <dialog
      ref={dialog}
      class={form}
      aria-labelledby={id}
      {...{ closedby: isHeld ? 'none' : 'closerequest' }}
      onCancel={(event) => {
        event.preventDefault();
        if (!isHeld) onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        {!isHeld && (
          <button type="button" class="quiet small" onClick={onClose} aria-label="Close">
            <Icon name="close" />
          </button>
        )}
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

/** The first field to focus: not the button in the header, which would close the dialog again. */
const firstField = '.dialog-body :is(input, select, textarea:not([readonly]), button)';

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly verb: string;
  readonly work: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before an action that cannot be undone. */
export function Confirm({ title, children, verb, work, onClose }: ConfirmProps) {
  const action = useAction();
  return (
    <Dialog title={title} onClose={onClose}>
      <div>{children}</div>
      <ErrorNote message={action.error} />
      <footer class="buttons">
        <button type="button" class="quiet" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class="danger"
          disabled={action.busy}
          onClick={() => action.run(work)}
        >
          {verb}
        </button>
      </footer>
    </Dialog>
  );
}
