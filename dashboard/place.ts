import { useLayoutEffect, useState } from 'preact/hooks';

/**
 * Where one is: the page and everything chosen on it, all of it in the address, so that a view can
 * be reloaded, bookmarked and sent to somebody. Secrets never are.
 */
export interface Place {
  /** The part behind `/dashboard/`; empty for the front page. */
  readonly page: string;
  readonly query: URLSearchParams;
}

const root = '/dashboard';
const moved = 'tollgate-moved';

/** `null` takes a name out of the address. */
export type Choices = Readonly<Record<string, string | null>>;

/** A server refuses an address that is much longer, and the page could not be reloaded. */
const queryMax = 8_000;

/** What the browser's history keeps of a step beside its address. */
interface State {
  readonly query?: string;
  /** A dialog was opened by it, so that the step before shows the page without. */
  readonly isAbove: boolean;
}

function here(): Place {
  const page = location.pathname.slice(root.length).replaceAll('/', '');
  const kept = history.state as State | null;
  return { page, query: new URLSearchParams(kept?.query ?? location.search) };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  // With the page and not after its next picture: who chooses at once would not be heard.
  useLayoutEffect(() => {
    const follow = () => setPlace(here());
    addEventListener('popstate', follow);
    addEventListener(moved, follow);
    return () => {
      removeEventListener('popstate', follow);
      removeEventListener(moved, follow);
    };
  }, []);
  return place;
}

/** Whoever turns a page at its end reads the next one from its beginning. */
export function turnTo(offset: number): void {
  choose({ offset: offset > 0 ? String(offset) : null });
  scrollTo(0, 0);
}

/** Which entry of a table the address names; the usual one where it names none. */
export function chosenIn<Name extends string>(
  table: Readonly<Record<Name, unknown>>,
  text: string | null,
  usual: Name,
): Name {
  return text !== null && Object.hasOwn(table, text) ? (text as Name) : usual;
}

/** How far a list is turned; the front where the address says nonsense. */
export function offsetOf({ query }: Place): number {
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

/** Changes some choices and keeps the others. Typing replaces, so that «back» leaves the page. */
export function choose(choices: Choices, how: 'push' | 'replace' = 'push', isAbove = false): void {
  const { query } = here();
  for (const [name, value] of Object.entries(choices)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.size === 0 ? '' : `?${query}`;
  // What is too long for an address is kept beside it, where a reload of this tab finds it.
  const isLong = text.length > queryMax;
  const state: State = { isAbove, ...(isLong ? { query: text } : {}) };
  const address = location.pathname + (isLong ? '' : text);
  if (how === 'push') history.pushState(state, '', address);
  else history.replaceState(state, '', address);
  dispatchEvent(new Event(moved));
}

/** Opens what lies above the page: «back» closes it. */
export function openAbove(choices: Choices): void {
  choose(choices, 'push', true);
}

/** Whoever closes it, saved or not, has gone back: the next «back» leaves the page. */
export function closeAbove(name: string): void {
  // Closed by «back» itself, while what it sent was under way.
  if (!here().query.has(name)) return;
  const { isAbove = false } = (history.state ?? {}) as Partial<State>;
  if (isAbove) {
    // Pressed twice, it goes back once.
    history.replaceState(null, '');
    history.back();
  } else choose({ [name]: null }, 'replace');
}

/** A click on a link of ours, unless the reader wants it in a tab of its own. */
export function followLink(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target.closest('a') : null;
  const href = target?.getAttribute('href') ?? '';
  if (!/^\/dashboard(?:$|[/?])/.test(href) || target?.hasAttribute('download')) return;
  event.preventDefault();
  goTo(href);
}
