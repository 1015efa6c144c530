import { useLayoutEffect, useState } from 'preact/hooks';

/**
 * The page and everything chosen on it. All of it is in the address, so that a view can be
 * reloaded, bookmarked and shared. Secrets are never in it.
 */
export interface Route {
  /** The part behind `/dashboard/`; empty for the front page. */
  readonly page: string;
  readonly query: URLSearchParams;
}

const root = '/dashboard';
const moved = 'tollgate-moved';

/** `null` takes a name out of the address. */
export type Choices = Readonly<Record<string, string | null>>;

/** Servers refuse much longer addresses, so the page could not be reloaded. */
const queryMax = 8_000;

/** What the browser's history stores with an entry, besides its address. */
interface State {
  readonly query?: string;
  /** This entry opened a dialog, so the entry before shows the page without it. */
  readonly isOverlay: boolean;
}

function currentRoute(): Route {
  const page = location.pathname.slice(root.length).replaceAll('/', '');
  const stored = history.state as State | null;
  return { page, query: new URLSearchParams(stored?.query ?? location.search) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  // A layout effect runs before the next paint, so that a choice made at once is not missed.
  useLayoutEffect(() => {
    const follow = () => setRoute(currentRoute());
    addEventListener('popstate', follow);
    addEventListener(moved, follow);
    return () => {
      removeEventListener('popstate', follow);
      removeEventListener(moved, follow);
    };
  }, []);
  return route;
}

/** Goes to another page of a list and scrolls up, so that reading begins at its top. */
export function turnTo(offset: number): void {
  choose({ offset: offset > 0 ? String(offset) : null });
  scrollTo(0, 0);
}

/** The entry of a table that the address names, or the default. */
export function chosenIn<Name extends string>(
  table: Readonly<Record<Name, unknown>>,
  text: string | null,
  fallback: Name,
): Name {
  return text !== null && Object.hasOwn(table, text) ? (text as Name) : fallback;
}

/** The offset of a list; 0 if the address has none or an invalid one. */
export function offsetOf({ query }: Route): number {
  const offset = Number(query.get('offset'));
  return Number.isSafeInteger(offset) && offset > 0 ? offset : 0;
}

export function addressOf(page: string, choices: Choices = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(choices)) if (value !== null) query.set(name, value);
  const text = query.toString();
  return `${page === '' ? root : `${root}/${page}`}${text === '' ? '' : `?${text}`}`;
}

export function goTo(address: string): void {
  history.pushState(null, '', address);
  dispatchEvent(new Event(moved));
  scrollTo(0, 0);
}

/**
 * Changes some choices and keeps the others. Use `replace` while typing, so that «back» leaves the
 * page.
 */
export function choose(
  choices: Choices,
  mode: 'push' | 'replace' = 'push',
  isOverlay = false,
): void {
  const { query } = currentRoute();
  for (const [name, value] of Object.entries(choices)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.size === 0 ? '' : `?${query}`;
  // A query too long for the address is kept in the history entry, which survives a reload of the
  // tab.
  const isLong = text.length > queryMax;
  const state: State = { isOverlay, ...(isLong ? { query: text } : {}) };
  const address = location.pathname + (isLong ? '' : text);
  if (mode === 'push') history.pushState(state, '', address);
  else history.replaceState(state, '', address);
  dispatchEvent(new Event(moved));
}

/** Opens a dialog, which «back» closes. */
export function openOverlay(choices: Choices): void {
  choose(choices, 'push', true);
}

/** Closing a dialog goes back in the history, so that the next «back» leaves the page. */
export function closeOverlay(name: string): void {
  // «Back» has closed the dialog already, while its form was being sent.
  if (!currentRoute().query.has(name)) return;
  const { isOverlay = false } = (history.state ?? {}) as Partial<State>;
  if (isOverlay) {
    // So that closing twice goes back only once.
    history.replaceState(null, '');
    history.back();
  } else choose({ [name]: null }, 'replace');
}

/** Follows a link within the dashboard, unless the user wants it in another tab. */
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target.closest('a') : null;
  const href = target?.getAttribute('href') ?? '';
  if (!/^\/dashboard(?:$|[/?])/.test(href) || target?.hasAttribute('download')) return;
  event.preventDefault();
  goTo(href);
}
