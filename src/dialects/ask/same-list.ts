/**
 * The list as it was before, where nothing in it was changed: by that whoever writes a body sees
 * that the client's own text can go on.
 */
export function sameIfUnchanged<List extends readonly unknown[]>(before: List, after: List): List {
  const isSame = after.length === before.length && after.every((one, at) => one === before[at]);
  return isSame ? before : after;
}
