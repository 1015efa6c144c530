import type { ComponentChildren } from 'preact';
import { type Loaded, useEvery } from '../load.ts';
import { addressOf } from '../route.ts';
import { CodeLine } from './copy.tsx';

interface ErrorNoteProps {
  readonly message: string | undefined;
  /** Repeats what has failed. */
  readonly again?: () => void;
}

export function ErrorNote({ message, again }: ErrorNoteProps) {
  if (message === undefined) return null;
  return (
    <p class="note bad" role="alert">
      {message}{' '}
      {again && (
        <button type="button" class="link" onClick={again}>
          Try again
        </button>
      )}
    </p>
  );
}

const waitMs = 3_000;

/** Reloads again and again, so that the user sees the first request arrive. */
export function Waiting({ reload }: { readonly reload: () => void }) {
  useEvery(waitMs, true, reload);
  return (
    <p class="waiting">
      <span class="spinner" aria-hidden="true" />
      Waiting for it…
    </p>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children?: ComponentChildren;
  /** A command for the terminal that makes something to show here. */
  readonly curl?: string;
  /** Loads again, to see whether the command was run. */
  readonly reload?: () => void;
}

/** Says that there is nothing yet, and offers a command that changes it. */
export function Empty({ title, children, curl, reload }: EmptyProps) {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children}
      {curl !== undefined && <CodeLine text={curl} label="command" />}
      {reload && <Waiting reload={reload} />}
    </div>
  );
}

export function NoModel({ kind }: { readonly kind: string }) {
  return (
    <Empty title={`No ${kind} model can be called with this key`}>
      <p>
        See <a href={addressOf('models')}>which ones can</a>, or use a key that may call others.
      </p>
    </Empty>
  );
}

export function Busy({ what }: { readonly what: string }) {
  return (
    <p class="busy" role="status">
      <span class="spinner" aria-hidden="true" />
      {what}
    </p>
  );
}

interface LoadingProps {
  readonly of: Loaded<unknown>;
  readonly what: string;
}

/** The state of something that is loaded: that it failed, or is loading. */
export function Loading({ of: { data, error, busy, reload }, what }: LoadingProps) {
  return (
    <>
      <ErrorNote message={error} again={reload} />
      {!data && busy && <Busy what={what} />}
    </>
  );
}

export type Tone = 'good' | 'bad' | 'warn' | 'plain' | 'accent';

export function Badge({
  tone = 'plain',
  children,
}: {
  readonly tone?: Tone;
  readonly children: ComponentChildren;
}) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const circuits = {
  closed: { tone: 'good', text: 'healthy' },
  half_open: { tone: 'warn', text: 'recovering' },
  open: { tone: 'bad', text: 'failing' },
} as const;

/**
 * The state of a circuit breaker in plain words: that "closed" lets calls through sounds wrong to
 * most people.
 */
export function Condition({ circuit }: { readonly circuit: keyof typeof circuits }) {
  const { tone, text } = circuits[circuit];
  return (
    <span class={`condition ${tone}`}>
      <i aria-hidden="true" />
      {text}
    </span>
  );
}

export function Progress({ share, label }: { readonly share: number; readonly label: string }) {
  const value = Math.max(0, Math.min(1, share));
  const tone = value >= 0.95 ? 'bad' : value >= 0.8 ? 'warn' : 'good';
  return <progress class={`bar ${tone}`} max={1} value={value} aria-label={label} />;
}
