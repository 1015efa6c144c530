/** Which route was meant by a path that has none: mistyped, or remembered from another API. */
import { nearest } from '../core/nearest.ts';
import { isAnyPrefix } from './paths.ts';
import type { Route } from './routes.ts';

/**
 * A longer path is no typing error, and comparing it would cost time that strangers could waste.
 */
const comparedLengthMax = 100;

/** Shorter words are the beginning of too many others. */
const beginningLengthMin = 4;

interface NearRoute {
  readonly route: Route;
  /**
   * Whether it is similar enough to ask if it was meant; else it is only nearer than the others.
   */
  readonly isLike: boolean;
}

export function nearestRoute(
  method: string,
  path: string,
  routes: readonly Route[],
): NearRoute | undefined {
  if (path.length > comparedLengthMax) return undefined;
  const asked = wordsOf(path);
  const same = routes.filter((route) => route.method === method);
  // A single word is more often a name of ours in the wrong place than a misspelt name.
  const like =
    (asked.length > 1 ? spelledLike(asked, same) : undefined) ??
    namedLike(asked, same) ??
    spelledLike(asked, same) ??
    spelledLike(asked, routes);
  if (like) return { route: like, isLike: true };
  const far = sharingMost(asked, same) ?? sharingMost(asked, routes) ?? closest(path, same);
  return far && { route: far, isLike: false };
}

/** The names in a path, without the versions in front and the variable parts. */
function wordsOf(path: string): readonly string[] {
  const segments = path.toLowerCase().split('/');
  return segments.filter((word) => word !== '' && !word.startsWith(':') && !isAnyPrefix.test(word));
}

function isSameName(a: string, b: string): boolean {
  if (a === b) return true;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return short.length >= beginningLengthMin && long.startsWith(short);
}

/** How many names of one path another path has, too. */
function sharedBy(some: readonly string[], others: readonly string[]): number {
  return some.filter((word) => others.some((other) => isSameName(word, other))).length;
}

/** A route that has the first name of the path, or all of whose names are in the path. */
function namedLike(asked: readonly string[], routes: readonly Route[]): Route | undefined {
  const named = routes.filter(({ path }) => {
    const words = wordsOf(path);
    const isWithin = words.length > 1 && sharedBy(words, asked) === words.length;
    return isWithin || sharedBy(asked.slice(0, 1), words) === 1;
  });
  return sharingMost(asked, named);
}

/** The route that shares most names with the path; of several, the first with the fewest others. */
function sharingMost(asked: readonly string[], routes: readonly Route[]): Route | undefined {
  let best: Route | undefined;
  let bestScore = 0;
  for (const route of routes) {
    const words = wordsOf(route.path);
    const shared = sharedBy(asked, words);
    // Other names count far less than a shared one: they only decide between equals.
    const score = shared && shared - words.length / comparedLengthMax;
    if (score <= bestScore) continue;
    best = route;
    bestScore = score;
  }
  return best;
}

function spelledLike(asked: readonly string[], routes: readonly Route[]): Route | undefined {
  const word = asked.join('/');
  // Little may be wrong in a short word, or it is another word.
  const distanceMax = Math.min(Math.max(2, Math.floor(word.length / 3)), word.length - 2);
  const spellings = routes.map(({ path }) => wordsOf(path).join('/'));
  const close = nearest(word, spellings, distanceMax);
  return close === undefined ? undefined : routes[spellings.indexOf(close)];
}

function closest(path: string, routes: readonly Route[]): Route | undefined {
  const paths = routes.map((route) => route.path);
  const close = nearest(path, paths, comparedLengthMax);
  return close === undefined ? undefined : routes[paths.indexOf(close)];
}
