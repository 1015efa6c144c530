/**
 * Returns the error that a promise rejects with. `expect().rejects` runs the event loop within the
 * current task, and Bun delivers no second message of a worker while the first is being handled,
 * so a promise that needs the SQLite threads would never settle.
 */
export async function failureOf(promise: Promise<unknown>): Promise<Error> {
  const outcome: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcome instanceof Error) return outcome;
  throw new Error(`The promise didn't reject. It resolved to ${outcome}.`);
}
