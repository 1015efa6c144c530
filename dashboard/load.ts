import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The data loaded last. It remains while new data is loading. */
  readonly data: T | undefined;
  readonly error: string | undefined;
  readonly busy: boolean;
  /** True if `data` was loaded for the previous `name`. */
  readonly isStale: boolean;
  reload(): void;
}

interface State<T> extends Omit<Loaded<T>, 'isStale' | 'reload'> {
  /** The `name` for which `data` was loaded. */
  readonly loadedName: string | undefined;
}

/** Data older than this is reloaded when the user returns to the tab. */
const staleMs = 300_000;

/** Loads when `name` changes and on `reload`. Ignores late responses to earlier loads. */
export function useLoad<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<State<T>>(initialState);
  const [loadCount, setLoadCount] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const requestedAt = useRef(0);
  useEffect(() => {
    requestedAt.current = Date.now();
    const controller = new AbortController();
    // Keep the error and its retry button visible while the same data is reloaded.
    setState(({ data, loadedName, error }) => ({
      data,
      loadedName,
      error: loadedName === name ? error : undefined,
      busy: true,
    }));
    latest.current(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted)
          setState({ data, loadedName: name, error: undefined, busy: false });
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        // Drop the data of the previous `name`, because it would look current below this error.
        setState(({ data, loadedName }) => ({
          data: loadedName === name ? data : undefined,
          loadedName: name,
          error: errorMessage(error),
          busy: false,
        }));
      },
    );
    return () => controller.abort();
  }, [name, loadCount]);
  const reload = useCallback(() => setLoadCount((count) => count + 1), []);
  useEffect(() => {
    const reloadIfStale = () => {
      const isStale = Date.now() - requestedAt.current > staleMs;
      if (isStale && document.visibilityState === 'visible') reload();
    };
    document.addEventListener('visibilitychange', reloadIfStale);
    return () => document.removeEventListener('visibilitychange', reloadIfStale);
  }, []);
  const { data, loadedName, error, busy } = state;
  return { data, error, busy, isStale: data !== undefined && loadedName !== name, reload };
}

const initialState = { data: undefined, loadedName: undefined, error: undefined, busy: true };

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}

export interface Action {
  readonly busy: boolean;
  readonly error: string | undefined;
  run(work: () => Promise<void>): void;
}

/** Runs the action of a button and tracks whether it's running and why it failed. */
export function useAction(): Action {
  const [state, setState] = useState<{ busy: boolean; error: string | undefined }>({
    busy: false,
    error: undefined,
  });
  return {
    ...state,
    run(work) {
      setState({ busy: true, error: undefined });
      work().then(
        () => setState({ busy: false, error: undefined }),
        (error: unknown) => setState({ busy: false, error: errorMessage(error) }),
      );
    },
  };
}

/** Calls `run` at an interval while the tab is visible. */
export function useInterval(intervalMs: number, isEnabled: boolean, run: () => void): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (!isEnabled) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') latest.current();
    }, intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs, isEnabled]);
}
