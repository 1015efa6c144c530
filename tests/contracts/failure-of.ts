/**
 * What a promise failed with. Not `expect().rejects`: that spins the event loop inside whatever is
 * running, and Bun delivers no second message of a worker while the first is being handled, so a
 * promise that needs the SQLite threads would never settle.
 */
export async function failureOf(promise: Promise<unknown>): Promise<Error> {
  const outcome: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcome instanceof Error) return outcome;
  throw new Error(`Expected a failure, got ${outcome}.`);
}
