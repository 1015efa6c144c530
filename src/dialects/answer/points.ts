/**
 * How many characters (Unicode code points) a text has: positions of citations count in them. A
 * surrogate pair that comes in two pieces counts once.
 */
export function pointsIn(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff]/g)?.length ?? 0);
}
