import { useEffect, useState } from 'preact/hooks';

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

function here(): Place {
  const page = location.pathname.slice(root.length).replaceAll('/', '');
  return { page, query: new URLSearchParams(location.search) };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
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
export function choose(choices: Choices, how: 'push' | 'replace' = 'push'): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(choices)) {
    if (value === null || value === '') url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  const address = url.pathname + url.search;
  if (how === 'push') history.pushState(null, '', address);
  else history.replaceState(null, '', address);
  dispatchEvent(new Event(moved));
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
