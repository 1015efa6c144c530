/** Puts a value into a map; one that is full loses what was put in first. */
export function putBounded<V>(map: Map<string, V>, name: string, value: V, sizeMax: number): void {
  const oldest = map.size >= sizeMax ? map.keys().next().value : undefined;
  if (oldest !== undefined) map.delete(oldest);
  map.set(name, value);
}
