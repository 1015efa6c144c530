/** Forms send an empty stop sequence if the user typed none. Vendors refuse it. */
export function filledStops(
  given: string | readonly string[] | null | undefined,
): readonly string[] {
  const stops = typeof given === 'string' ? [given] : (given ?? []);
  return stops.includes('') ? stops.filter((text) => text !== '') : stops;
}
