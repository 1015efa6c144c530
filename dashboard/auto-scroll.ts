import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Free space below the end of the text, in pixels. */
const margin = 16;
/**
 * Within this many pixels of the end, the reader counts as being at the end, because a row of
 * buttons may follow the text.
 */
const nearEnd = 80;

/** Scrolls to the end of a growing element until the reader scrolls away from it. */
export function useAutoScroll(): RefObject<HTMLElement | null> {
  const element = useRef<HTMLElement>(null);
  const isFollowing = useRef(false);
  const hiddenHeight = () => (element.current?.getBoundingClientRect().bottom ?? 0) - innerHeight;
  useEffect(() => {
    let last = scrollY;
    const update = () => {
      // If the reader scrolls up even a little, stop following. A page that becomes shorter also
      // scrolls up by itself, but then the reader is still at its end.
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
