import type { ComponentChildren } from 'preact';
import { type Loaded, useInterval } from '../load.ts';
import { urlFor } from '../route.ts';
import { CodeLine } from './copy.tsx';

interface ErrorNoteProps {
  readonly message: string | undefined;
  /** Retries the failed action. */
  readonly onRetry?: () => void;
}

export function ErrorNote({ message, onRetry }: ErrorNoteProps) {
  if (message === undefined) return null;
  return (
    <p class="note bad" role="alert">
      {message}{' '}
      {onRetry && (
        <button type="button" class="link" onClick={onRetry}>
          Try again
        </button>
      )}
    </p>
  );
}

const pollMs = 3_000;

/** Polls until the user's request arrives. */
export function Waiting({ reload }: { readonly reload: () => void }) {
  useInterval(pollMs, true, reload);
  return (
    <p class="waiting">
      <span class="spinner" aria-hidden="true" />
      Waiting for requests…
    </p>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children?: ComponentChildren;
  /** A shell command that creates something to show here. */
  readonly curl?: string;
  /** Polls for the effect of the command. */
  readonly reload?: () => void;
}

/** An empty state with a command to try. */
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
    <Empty title={`This key can't call any ${kind} models`}>
      <p>
        See <a href={urlFor('models')}>which models it can call</a>, or use another key.
      </p>
    </Empty>
  );
}

export function Busy({ text }: { readonly text: string }) {
  return (
    <p class="busy" role="status">
      <span class="spinner" aria-hidden="true" />
      {text}
    </p>
  );
}

interface LoadingProps {
  readonly loaded: Loaded<unknown>;
  readonly text: string;
}

/** Shows that data is loading, or why it failed to load. */
export function Loading({ loaded: { data, error, busy, reload }, text }: LoadingProps) {
  return (
    <>
      <ErrorNote message={error} onRetry={reload} />
      {!data && busy && <Busy text={text} />}
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

/** The state of a circuit breaker in plain words. "Closed" would be confusing for a healthy one. */
export function CircuitState({ circuit }: { readonly circuit: keyof typeof circuits }) {
  const { tone, text } = circuits[circuit];
  return (
    <span class={`circuit-state ${tone}`}>
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
