type Given<F> = { [Name in keyof F]?: Exclude<F[Name], undefined> };

/** The fields that were given: an optional field may be left out, but it may not be undefined. */
export function given<F extends object>(fields: F): Given<F> {
  const kept = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(kept) as Given<F>;
}
