import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Free space below the end of the text, in pixels. */
const margin = 16;
/** A reader this close to the end counts as at the end, as a row of buttons may follow. */
const nearEnd = 80;

/** Scrolls to the end of a growing element until the reader scrolls away from it. */
export function useAutoScroll(): RefObject<HTMLElement | null> {
  const element = useRef<HTMLElement>(null);
  const isFollowing = useRef(false);
  const hiddenHeight = () => (element.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  useEffect(() => {
    let last = scrollY;
    const update = () => {
      // Scrolling up, even by a little, stops following. But a page that became shorter also
      // scrolls up by itself, and then the reader is still at its end.
      const isUp = scrollY < last;
      last = scrollY;
      isFollowing.current = isUp ? isAtEnd() : hiddenHeight() < nearEnd;
    };
    update();
    addEventListener('scroll', update, { passive: true });
    return () => removeEventListener('scroll', update);
  }, []);
  useLayoutEffect(() => {
    if (isFollowing.current && hiddenHeight() > 0) scrollBy(0, hiddenHeight() + margin);
  });
  return element;
}

function isAtEnd(): boolean {
  return scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
}
