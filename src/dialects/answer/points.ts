/**
 * How many characters (Unicode code points) a text has: the places of sources are counted in them.
 * A character that comes in two pieces counts once.
 */
export function pointsIn(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff]/g)?.length ?? 0);
}
