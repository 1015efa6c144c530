import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiError, onKeyRejected } from './api.ts';
import { Busy } from './components/feedback.tsx';
import { errorMessage } from './load.ts';
import { followLink, useRoute } from './route.ts';
import {
  keyStorage,
  type Session,
  SessionContext,
  type VerifiedKey,
  verifyKey,
} from './session.ts';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

type State =
  | { readonly name: 'checking'; readonly key: string }
  | { readonly name: 'signed-out'; readonly message?: string; readonly retryKey?: string }
  | {
      readonly name: 'signed-in';
      readonly verified: VerifiedKey;
      readonly routingKey: string | null;
    };

function initialState(): State {
  const key = keyStorage.key();
  return key === null ? { name: 'signed-out' } : { name: 'checking', key };
}

/** Deletes the tab's key only after a 401. After other failures, the user can retry with it. */
function signedOutBy(error: unknown, key: string): State {
  const message = errorMessage(error);
  if (error instanceof ApiError && error.status !== 401) {
    return { name: 'signed-out', message, retryKey: key };
  }
  keyStorage.clear();
  return { name: 'signed-out', message };
}

function signedIn(verified: VerifiedKey): State {
  keyStorage.store(verified.key);
  const routingKey = verified.kind === 'routing' ? verified.key : keyStorage.routingKey();
  return { name: 'signed-in', verified, routingKey };
}

export function App() {
  const [state, setState] = useState(initialState);
  useRoute();
  useEffect(() => {
    if (state.name !== 'checking') return;
    verifyKey(state.key).then(
      (verified) => setState(signedIn(verified)),
      (error: unknown) => setState(signedOutBy(error, state.key)),
    );
  }, [state]);
  const session = useMemo(
    () => (state.name === 'signed-in' ? sessionOf(state, setState) : null),
    [state],
  );
  useEffect(() => {
    onKeyRejected((key, message) => {
      if (session?.key === key) {
        keyStorage.clear();
        setState({ name: 'signed-out', message: `You were signed out: ${message}` });
      } else if (session?.routingKey === key) session.setRoutingKey(null);
    });
  }, [session]);
  useEffect(() => {
    document.addEventListener('click', followLink);
    return () => document.removeEventListener('click', followLink);
  }, []);
  if (state.name === 'checking') return <Busy text="Signing in…" />;
  if (state.name === 'signed-out' || !session) {
    const { message, retryKey } = state.name === 'signed-out' ? state : {};
    const retry =
      retryKey === undefined ? undefined : () => setState({ name: 'checking', key: retryKey });
    return (
      <SignIn
        message={message}
        onRetry={retry}
        onVerified={(verified) => setState(signedIn(verified))}
      />
    );
  }
  return (
    <SessionContext.Provider value={session}>
      <Shell />
    </SessionContext.Provider>
  );
}

function sessionOf(
  state: Extract<State, { name: 'signed-in' }>,
  setState: (state: State) => void,
): Session {
  return {
    ...state.verified,
    routingKey: state.routingKey,
    setRoutingKey(routingKey) {
      keyStorage.storeRoutingKey(routingKey);
      setState({ ...state, routingKey });
    },
    signOut() {
      keyStorage.clear();
      setState({ name: 'signed-out' });
    },
  };
}
