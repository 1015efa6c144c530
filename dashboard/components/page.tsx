import type { ComponentChildren } from 'preact';
import { useTitle } from '../title.ts';

interface PageProps {
  readonly title: string;
  readonly lead?: string;
  readonly actions?: ComponentChildren;
  /** True while the page still shows data for the previous selection. */
  readonly isStale?: boolean;
  readonly children: ComponentChildren;
}

export function Page({ title, lead, actions, isStale = false, children }: PageProps) {
  useTitle('page', title);
  return (
    <main id="content" tabIndex={-1} aria-busy={isStale}>
      <header class="page-head">
        <div>
          <h1>{title}</h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="buttons">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

interface CardProps {
  readonly title?: string;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Card({ title, actions, children }: CardProps) {
  return (
    <section class="card">
      {(title || actions) && (
        <header class="card-head">
          {title && <h2>{title}</h2>}
          {actions && <div class="buttons">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

interface TileProps {
  readonly name: string;
  readonly value: string;
  /** The full number, if `value` is shortened. */
  readonly exact?: string;
  readonly below?: ComponentChildren;
}

/** Longer values get a smaller font, because four tiles share a row. */
const longValueLength = 12;

export function Tile({ name, value, exact, below }: TileProps) {
  return (
    <div class="tile">
      <dt>{name}</dt>
      <dd>
        <strong
          class={value.length > longValueLength ? 'long' : ''}
          {...(exact ? { title: exact } : {})}
        >
          {value}
        </strong>
        {below && <span class="below">{below}</span>}
      </dd>
    </div>
  );
}

interface DescriptionListProps {
  readonly items: readonly (readonly [name: string, value: string])[];
  readonly areNumbers?: boolean;
}

/** Names with their values, in columns. */
export function DescriptionList({ items, areNumbers = false }: DescriptionListProps) {
  return (
    <dl class="description-list">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd {...(areNumbers ? { class: 'number' } : {})}>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Tiles({ children }: { readonly children: ComponentChildren }) {
  return <dl class="tiles">{children}</dl>;
}
