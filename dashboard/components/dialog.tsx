import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { useAction } from '../load.ts';
import { useTitle } from '../title.ts';
import { ErrorNote } from './feedback.tsx';
import { Icon } from './icon.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** A sheet fills the right side of the window. */
  readonly variant?: 'box' | 'sheet';
  /** True if only its buttons close the dialog, because its content can't be shown again. */
  readonly isPersistent?: boolean;
}

/**
 * The element that had the focus before the first dialog opened. If a button in the first dialog
 * opened a second one, that button may no longer exist when the second dialog closes.
 */
let firstOpener: Element | null = null;

/** A native modal dialog, which traps the focus and closes on Escape. */
export function Dialog({
  title,
  onClose,
  children,
  variant = 'box',
  isPersistent = false,
}: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useTitle('dialog', title);
  // A layout effect runs before the next paint, so that no key press is lost.
  useLayoutEffect(() => {
    const element = dialog.current;
    const opener = document.activeElement;
    if (!document.querySelector('dialog:modal')) firstOpener = opener;
    element?.showModal();
    return () => {
      element?.close();
      // The browser doesn't restore the focus if the dialog is removed from the page.
      const hasOpener = opener?.isConnected && opener !== document.body;
      const target = hasOpener ? opener : firstOpener;
      if (target instanceof HTMLElement) target.focus();
    };
  }, []);
  const hasFocused = useRef(variant === 'sheet');
  // Runs after each render until a field has had the focus, because fields may appear late.
  useLayoutEffect(() => {
    if (hasFocused.current) return;
    const field = dialog.current?.querySelector(firstField);
    hasFocused.current = field instanceof HTMLElement;
    if (field instanceof HTMLElement) field.focus();
  });
  return (
    <dialog
      ref={dialog}
      class={variant}
      aria-labelledby={id}
      {...{ closedby: isPersistent ? 'none' : 'closerequest' }}
      onCancel={(event) => {
        event.preventDefault();
        if (!isPersistent) onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        {!isPersistent && (
          <button type="button" class="secondary small" onClick={onClose} aria-label="Close">
            <Icon name="close" />
          </button>
        )}
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

/** The first field to focus. Excludes the Close button in the header. */
const firstField = '.dialog-body :is(input, select, textarea:not([readonly]), button)';

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly confirmLabel: string;
  readonly work: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks for confirmation before an action. */
export function Confirm({ title, children, confirmLabel, work, onClose }: ConfirmProps) {
  const action = useAction();
  return (
    <Dialog title={title} onClose={onClose}>
      <div>{children}</div>
      <ErrorNote message={action.error} />
      <footer class="buttons">
        <button type="button" class="secondary" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class="danger"
          disabled={action.busy}
          onClick={() => action.run(work)}
        >
          {confirmLabel}
        </button>
      </footer>
    </Dialog>
  );
}
