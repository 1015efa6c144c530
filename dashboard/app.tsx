import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiError, whenRejected } from './api.ts';
import { Busy } from './components/notes.tsx';
import { sentence } from './load.ts';
import { followLink, useRoute } from './route.ts';
import { keyStorage, type Proven, prove, type Session, SessionContext } from './session.ts';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

type State =
  | { readonly name: 'checking'; readonly key: string }
  | { readonly name: 'out'; readonly message?: string; readonly retry?: string }
  | { readonly name: 'in'; readonly proven: Proven; readonly callKey: string | null };

function begin(): State {
  const key = keyStorage.key();
  return key === null ? { name: 'out' } : { name: 'checking', key };
}

/**
 * Only status 401 forgets the tab's key: after any other failure of the gateway it can be tried
 * again.
 */
function turnedAway(error: unknown, key: string): State {
  const message = sentence(error);
  if (error instanceof ApiError && error.status !== 401) {
    return { name: 'out', message, retry: key };
  }
  keyStorage.clear();
  return { name: 'out', message };
}

function enter(proven: Proven): State {
  keyStorage.store(proven.key);
  const callKey = proven.kind === 'routing' ? proven.key : keyStorage.callKey();
  return { name: 'in', proven, callKey };
}

export function App() {
  const [state, setState] = useState(begin);
  useRoute();
  useEffect(() => {
    if (state.name !== 'checking') return;
    prove(state.key).then(
      (proven) => setState(enter(proven)),
      (error: unknown) => setState(turnedAway(error, state.key)),
    );
  }, [state]);
  const session = useMemo(() => (state.name === 'in' ? sessionOf(state, setState) : null), [state]);
  useEffect(() => {
    whenRejected((key, message) => {
      if (session?.key === key) {
        keyStorage.clear();
        setState({ name: 'out', message: `You were signed out: ${message}` });
      } else if (session?.callKey === key) session.bringCallKey(null);
    });
  }, [session]);
  useEffect(() => {
    document.addEventListener('click', followLink);
    return () => document.removeEventListener('click', followLink);
  }, []);
  if (state.name === 'checking') return <Busy what="Signing in…" />;
  if (state.name === 'out' || !session) {
    const { message, retry } = state.name === 'out' ? state : {};
    const again =
      retry === undefined ? undefined : () => setState({ name: 'checking', key: retry });
    return (
      <SignIn message={message} again={again} onProven={(proven) => setState(enter(proven))} />
    );
  }
  return (
    <SessionContext.Provider value={session}>
      <Shell />
    </SessionContext.Provider>
  );
}

function sessionOf(
  state: Extract<State, { name: 'in' }>,
  setState: (state: State) => void,
): Session {
  return {
    ...state.proven,
    callKey: state.callKey,
    bringCallKey(callKey) {
      keyStorage.storeCallKey(callKey);
      setState({ ...state, callKey });
    },
    signOut() {
      keyStorage.clear();
      setState({ name: 'out' });
    },
  };
}
