/**
 * The very list from before where nothing in it was changed: whoever writes the body knows by it
 * that the client's own text can go on.
 */
export function sameIfUnchanged<List extends readonly unknown[]>(before: List, after: List): List {
  const isSame = after.length === before.length && after.every((one, at) => one === before[at]);
  return isSame ? before : after;
}
