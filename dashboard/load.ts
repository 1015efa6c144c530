import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The last answer; it stays while the next one is loading. */
  readonly data: T | undefined;
  readonly error: string | undefined;
  readonly busy: boolean;
  /** `data` still belongs to the previous `name`. */
  readonly isStale: boolean;
  reload(): void;
}

interface State<T> extends Omit<Loaded<T>, 'isStale' | 'reload'> {
  /** The `name` for which `data` was loaded. */
  readonly of: string | undefined;
}

/** Data older than this is loaded again when the user comes back to the tab. */
const staleMs = 300_000;

/** Loads when `name` changes and on `reload`. A late answer to an earlier load is ignored. */
export function useLoad<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<State<T>>(fresh);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const requestedAt = useRef(0);
  useEffect(() => {
    requestedAt.current = Date.now();
    const controller = new AbortController();
    // While the same thing is loaded again, the last failure and its button stay in sight.
    setState(({ data, of, error }) => ({
      data,
      of,
      error: of === name ? error : undefined,
      busy: true,
    }));
    latest.current(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) setState({ data, of: name, error: undefined, busy: false });
      },
      (error: unknown) => {
        if (controller.signal.aborted) return;
        // Data of the previous choice is dropped: below this failure it would look like this
        // choice's.
        setState(({ data, of }) => ({
          data: of === name ? data : undefined,
          of: name,
          error: sentence(error),
          busy: false,
        }));
      },
    );
    return () => controller.abort();
  }, [name, turn]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  useEffect(() => {
    const reloadIfStale = () => {
      const isStale = Date.now() - requestedAt.current > staleMs;
      if (isStale && document.visibilityState === 'visible') reload();
    };
    document.addEventListener('visibilitychange', reloadIfStale);
    return () => document.removeEventListener('visibilitychange', reloadIfStale);
  }, []);
  const { data, of, error, busy } = state;
  return { data, error, busy, isStale: data !== undefined && of !== name, reload };
}

const fresh = { data: undefined, of: undefined, error: undefined, busy: true };

export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}

export interface Action {
  readonly busy: boolean;
  readonly error: string | undefined;
  run(work: () => Promise<void>): void;
}

/** An action behind a button: busy while it runs, and its failure as a sentence. */
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
        (error: unknown) => setState({ busy: false, error: sentence(error) }),
      );
    },
  };
}

/** Calls `run` again and again while the tab is visible. */
export function useEvery(everyMs: number, isOn: boolean, run: () => void): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, isOn]);
}
