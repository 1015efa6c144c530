import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Space kept free below the end of the text. */
const margin = 16;
/** A reader this close to the end follows it again: the rest may be a row of buttons. */
const nearby = 80;

/** Keeps the end of a growing text in sight for as long as the reader stays there. */
export function useFollow(): RefObject<HTMLElement | null> {
  const grown = useRef<HTMLElement>(null);
  const isThere = useRef(false);
  const below = () => (grown.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  useEffect(() => {
    let last = scrollY;
    const look = () => {
      // A reader who scrolls up wants to read, however small the step, so following stops. But a
      // page that became shorter also scrolls up by itself, and then the reader is still at its
      // end.
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
