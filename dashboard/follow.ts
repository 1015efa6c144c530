import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Left free below the end. */
const margin = 16;
/** Whoever comes as near is back: the rest may be a row of buttons out of sight. */
const nearby = 80;

/** Keeps the end of what grows in sight for as long as its reader stays there. */
export function useFollow(): RefObject<HTMLElement | null> {
  const grown = useRef<HTMLElement>(null);
  const isThere = useRef(false);
  const below = () => (grown.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  useEffect(() => {
    let last = scrollY;
    const look = () => {
      // Whoever goes up reads there, even a finger's breadth: a little at a time is how most do it.
      // A page that became shorter goes up by itself, as far as it must.
      const isUp = scrollY < last;
      last = scrollY;
      isThere.current = isUp ? isAtEnd() : below() < nearby;
    };
    look();
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  useLayoutEffect(() => {
    if (isThere.current && below() > 0) scrollBy(0, below() + margin);
  });
  return grown;
}

function isAtEnd(): boolean {
  return scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
}
