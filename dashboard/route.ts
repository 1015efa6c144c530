import { useLayoutEffect, useState } from 'preact/hooks';

/**
 * The page and all its settings. They're in the URL, so that a view can be reloaded, bookmarked,
 * and shared. Secrets are never in the URL.
 */
export interface Route {
  /** The path after `/dashboard/`, or '' for the home page. */
  readonly page: string;
  readonly query: URLSearchParams;
}

const root = '/dashboard';
const routeChanged = 'tollgate-route-changed';

/** New values of query parameters. `null` removes a parameter. */
export type QueryChanges = Readonly<Record<string, string | null>>;

/** Servers reject much longer URLs, so the page couldn't be reloaded. */
const queryMax = 8_000;

/** What a history entry stores besides its URL. */
interface State {
  readonly query?: string;
  /** True if this entry opened a dialog. The previous entry then shows the page without it. */
  readonly isOverlay: boolean;
}

function currentRoute(): Route {
  const page = location.pathname.slice(root.length).replaceAll('/', '');
  const stored = history.state as State | null;
  return { page, query: new URLSearchParams(stored?.query ?? location.search) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  // A layout effect runs before the next paint, so that an immediate click isn't missed.
  useLayoutEffect(() => {
    const update = () => setRoute(currentRoute());
    addEventListener('popstate', update);
    addEventListener(routeChanged, update);
    return () => {
      removeEventListener('popstate', update);
      removeEventListener(routeChanged, update);
    };
  }, []);
  return route;
}

/** Opens another page of a list and scrolls to its top. */
export function goToOffset(offset: number): void {
  setQuery({ offset: offset > 0 ? String(offset) : null });
  scrollTo(0, 0);
}

/** Returns the option that a query parameter names, or the fallback. */
export function optionIn<Name extends string>(
  options: Readonly<Record<Name, unknown>>,
  text: string | null,
  fallback: Name,
): Name {
  return text !== null && Object.hasOwn(options, text) ? (text as Name) : fallback;
}

/** Returns the offset of a list, or 0 if the URL has none or an invalid one. */
export function offsetOf({ query }: Route): number {
  const offset = Number(query.get('offset'));
  return Number.isSafeInteger(offset) && offset > 0 ? offset : 0;
}

export function urlFor(page: string, changes: QueryChanges = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(changes)) if (value !== null) query.set(name, value);
  const text = query.toString();
  return `${page === '' ? root : `${root}/${page}`}${text === '' ? '' : `?${text}`}`;
}

export function navigate(url: string): void {
  history.pushState(null, '', url);
  dispatchEvent(new Event(routeChanged));
  scrollTo(0, 0);
}

/**
 * Changes some query parameters and keeps the others. Use `replace` while the user types, so that
 * the Back button leaves the page.
 */
export function setQuery(
  changes: QueryChanges,
  mode: 'push' | 'replace' = 'push',
  isOverlay = false,
): void {
  const { query } = currentRoute();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.size === 0 ? '' : `?${query}`;
  // A query too long for the URL goes into the history entry, which survives a reload.
  const isLong = text.length > queryMax;
  const state: State = { isOverlay, ...(isLong ? { query: text } : {}) };
  const url = location.pathname + (isLong ? '' : text);
  if (mode === 'push') history.pushState(state, '', url);
  else history.replaceState(state, '', url);
  dispatchEvent(new Event(routeChanged));
}

/** Opens a dialog, which the Back button closes. */
export function openOverlay(changes: QueryChanges): void {
  setQuery(changes, 'push', true);
}

/** Closes a dialog by going back in the history, so that the next Back leaves the page. */
export function closeOverlay(name: string): void {
  // If the user pressed Back while the form was being sent, the dialog is already closed.
  if (!currentRoute().query.has(name)) return;
  const { isOverlay = false } = (history.state ?? {}) as Partial<State>;
  if (isOverlay) {
    // Prevents a second close from going back again.
    history.replaceState(null, '');
    history.back();
  } else setQuery({ [name]: null }, 'replace');
}

/** Opens a link to another dashboard page without a reload, unless it goes to a new tab. */
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target.closest('a') : null;
  const href = target?.getAttribute('href') ?? '';
  if (!/^\/dashboard(?:$|[/?])/.test(href) || target?.hasAttribute('download')) return;
  event.preventDefault();
  navigate(href);
}
