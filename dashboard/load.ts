import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The last answer; stays in sight while the next one is on its way. */
  readonly data: T | undefined;
  readonly error: string | undefined;
  readonly busy: boolean;
  reload(): void;
}

/** Loads when `name` changes and on demand. An answer that comes too late is thrown away. */
export function useLoad<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>(fresh);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    setState(({ data }) => ({ data, error: undefined, busy: true }));
    latest.current(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) setState({ data, error: undefined, busy: false });
      },
      (thrown: unknown) => {
        if (controller.signal.aborted) return;
        setState(({ data }) => ({ data, error: sentence(thrown), busy: false }));
      },
    );
    return () => controller.abort();
  }, [name, turn]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  return { ...state, reload };
}

const fresh = { data: undefined, error: undefined, busy: true };

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
