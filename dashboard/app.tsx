import { useEffect, useMemo, useState } from 'preact/hooks';
import { whenRejected } from './api.ts';
import { Busy } from './parts/notes.tsx';
import { followLink, usePlace } from './place.ts';
import { kept, type Proven, prove, type Session, SessionContext } from './session.ts';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

type State =
  | { readonly name: 'checking'; readonly key: string }
  | { readonly name: 'out'; readonly message: string | undefined }
  | { readonly name: 'in'; readonly proven: Proven; readonly callKey: string | null };

function begin(): State {
  const key = kept.key();
  return key === null ? { name: 'out', message: undefined } : { name: 'checking', key };
}

function enter(proven: Proven): State {
  kept.keep(proven.key);
  const callKey = proven.kind === 'routing' ? proven.key : kept.callKey();
  return { name: 'in', proven, callKey };
}

export function App() {
  const [state, setState] = useState(begin);
  usePlace();
  useEffect(() => {
    if (state.name !== 'checking') return;
    prove(state.key).then(
      (proven) => setState(enter(proven)),
      (thrown: unknown) => {
        setState({ name: 'out', message: thrown instanceof Error ? thrown.message : undefined });
      },
    );
  }, [state]);
  const session = useMemo(() => (state.name === 'in' ? sessionOf(state, setState) : null), [state]);
  useEffect(() => {
    whenRejected((key, message) => {
      if (session?.key === key) {
        kept.forget();
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
    const message = state.name === 'out' ? state.message : undefined;
    return <SignIn message={message} onProven={(proven) => setState(enter(proven))} />;
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
      kept.keepCallKey(callKey);
      setState({ ...state, callKey });
    },
    signOut() {
      kept.forget();
      setState({ name: 'out', message: undefined });
    },
  };
}
