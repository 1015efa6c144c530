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
  /** Nothing but its own buttons closes it: what it shows is not shown again. */
  readonly isHeld?: boolean;
}

/** Where one was on the page: a dialog that follows another outlives the other's buttons. */
let beneath: Element | null = null;

/** The browser's own dialog: it keeps the focus inside and closes on Escape. */
export function Dialog({ title, onClose, children, form = 'box', isHeld = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useTitle('dialog', title);
  // With the page and not after its next picture: whoever types on would type into nothing.
  useLayoutEffect(() => {
    const element = dialog.current;
    const opener = document.activeElement;
    if (!document.querySelector('dialog:modal')) beneath = opener;
    element?.showModal();
    return () => {
      element?.close();
      // Gone from the page a moment later, where the browser gives the focus back to nobody.
      const isThere = opener?.isConnected && opener !== document.body;
      const last = isThere ? opener : beneath;
      if (last instanceof HTMLElement) last.focus();
    };
  }, []);
  const isBegun = useRef(form === 'sheet');
  // Once: what one begins with may have to be fetched first.
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

/** Where one begins: not on the button that would close it again. */
const firstField = '.dialog-body :is(input, select, textarea:not([readonly]), button)';

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly verb: string;
  readonly work: () => Promise<void>;
  readonly onClose: () => void;
}

/** For what cannot be taken back. */
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
