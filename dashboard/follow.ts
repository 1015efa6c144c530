import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Left free below the end. */
const margin = 16;
/** Whoever is further away has turned the wheel: less may be a row of buttons out of sight. */
const nearby = 80;

/** Keeps the end of what grows in sight for as long as its reader stays there. */
export function useFollow(): RefObject<HTMLElement | null> {
  const grown = useRef<HTMLElement>(null);
  const isThere = useRef(false);
  const below = () => (grown.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  useEffect(() => {
    const look = () => {
      isThere.current = below() < nearby;
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
