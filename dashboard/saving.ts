import { useState } from 'preact/hooks';
import { ApiError, requestData, requestJson } from './api.ts';
import { type Action, useAction } from './load.ts';
import { useSession } from './session.ts';
import type { Ownership } from './shapes.ts';

const outdated = 412;
const notFound = 404;

interface Change {
  readonly path: string;
  readonly body: object;
  /** The version that it replaces, or null for an object that must not exist yet. */
  readonly version: number | null;
}

interface Saving<T> {
  readonly action: Action;
  /** What is wrong, by path of the field. The path is '' if the gateway names none. */
  readonly errors: ReadonlyMap<string, string>;
  /** The version that someone else has saved meanwhile. Null if it was deleted. */
  readonly theirs: T | null | undefined;
  save(change: Change): void;
  fail(errors: ReadonlyMap<string, string>): void;
  forgetConflict(): void;
}

/** Saves an object unless someone else has changed it, and reports errors by field. */
export function useSaving<T extends Ownership>(onDone: () => void): Saving<T> {
  const { key } = useSession();
  const action = useAction();
  const [errors, fail] = useState<ReadonlyMap<string, string>>(new Map());
  const [theirs, setTheirs] = useState<T | null>();
  const load = async (path: string) => {
    try {
      const found = await requestData<T>(path, { key });
      return found.owner === 'store' ? found : null;
    } catch (error) {
      if (error instanceof ApiError && error.status === notFound) return null;
      throw error;
    }
  };
  const save = ({ path, body, version }: Change) =>
    action.run(async () => {
      fail(new Map());
      const headers = version === null ? { 'if-none-match': '*' } : { 'if-match': `"${version}"` };
      try {
        await requestJson(path, { key, method: 'PUT', body, headers });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === outdated) {
          setTheirs(await load(path));
          return;
        }
        fail(new Map([[error.param ?? '', error.message]]));
        throw error;
      }
      onDone();
    });
  return { action, errors, theirs, save, fail, forgetConflict: () => setTheirs(undefined) };
}
