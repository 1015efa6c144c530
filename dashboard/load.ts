import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The last answer; stays in sight while the next one is on its way. */
  readonly data: T | undefined;
  readonly error: string | undefined;
  readonly busy: boolean;
  /** What is in sight belongs to what was chosen before. */
  readonly isStale: boolean;
  reload(): void;
}

interface State<T> extends Omit<Loaded<T>, 'isStale' | 'reload'> {
  /** What `data` was loaded as. */
  readonly of: string | undefined;
}

/** Loads when `name` changes and on demand. An answer that comes too late is thrown away. */
export function useLoad<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<State<T>>(fresh);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    setState(({ data, of }) => ({ data, of, error: undefined, busy: true }));
    latest.current(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) setState({ data, of: name, error: undefined, busy: false });
      },
      (thrown: unknown) => {
        if (controller.signal.aborted) return;
        // The numbers of another choice below this one's failure would pass for its own.
        setState(({ data, of }) => ({
          data: of === name ? data : undefined,
          of: name,
          error: sentence(thrown),
          busy: false,
        }));
      },
    );
    return () => controller.abort();
  }, [name, turn]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  const { data, of, error, busy } = state;
  return { data, error, busy, isStale: data !== undefined && of !== name, reload };
}

const fresh = { data: undefined, of: undefined, error: undefined, busy: true };

export function sentence(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : 'Something went wrong; try again.';
}

export interface Action {
  readonly busy: boolean;
  readonly error: string | undefined;
  run(work: () => Promise<void>): void;
}

/** Something that a button starts: busy while it runs, and its failure as a sentence. */
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
        (thrown: unknown) => setState({ busy: false, error: sentence(thrown) }),
      );
    },
  };
}

/** Repeats while the tab is looked at. */
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
