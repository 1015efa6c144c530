/** Forms send an empty text where nobody typed one. It stops nothing, and vendors refuse it. */
export function filledStops(
  given: string | readonly string[] | null | undefined,
): readonly string[] {
  const stops = typeof given === 'string' ? [given] : (given ?? []);
  return stops.includes('') ? stops.filter((text) => text !== '') : stops;
}
