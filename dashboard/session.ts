import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { requestData, requestJson } from './api.ts';
import type { Key, Kind, Scope } from './shapes.ts';

/** The signed-in user. The keys are kept for this tab only and sent only to this gateway. */
export interface Session {
  readonly key: string;
  readonly kind: Kind;
  /** What the API says of the key; null for the admin token. */
  readonly about: Key | null;
  /** The key that calls models: the key itself, or a routing key added to a management key. */
  readonly callKey: string | null;
  bringCallKey(key: string | null): void;
  signOut(): void;
}

const keyItem = 'tollgate.key';
const callKeyItem = 'tollgate.call-key';

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error('A page was shown to nobody.');
  return session;
}

export function kindOf(key: string): Kind | null {
  if (key.startsWith('sk-tg-')) return 'routing';
  if (key.startsWith('sk-mgmt-')) return 'management';
  return key.startsWith('sk-admin-') ? 'admin' : null;
}

export interface Proven {
  readonly key: string;
  readonly kind: Kind;
  readonly about: Key | null;
}

/** Asks the gateway whether the key is valid. Rejects with a sentence if it is not. */
export async function prove(key: string): Promise<Proven> {
  const kind = kindOf(key);
  if (kind === null) {
    throw new Error('A key starts with sk-tg-, sk-mgmt- or sk-admin-.');
  }
  if (kind === 'admin') {
    await requestJson('/admin/v1/overview', { key });
    return { key, kind, about: null };
  }
  return { key, kind, about: await requestData<Key>('/v1/key', { key }) };
}

export const keyStorage = {
  key: (): string | null => sessionStorage.getItem(keyItem),
  callKey: (): string | null => sessionStorage.getItem(callKeyItem),
  store(key: string): void {
    sessionStorage.setItem(keyItem, key);
  },
  storeCallKey(key: string | null): void {
    if (key === null) sessionStorage.removeItem(callKeyItem);
    else sessionStorage.setItem(callKeyItem, key);
  },
  clear(): void {
    sessionStorage.removeItem(keyItem);
    sessionStorage.removeItem(callKeyItem);
  },
};

/** A key without scopes has all of them. */
export function mayDo({ kind, about }: Pick<Session, 'kind' | 'about'>, scope: Scope): boolean {
  if (kind === 'admin') return false;
  return kind === 'management' || about?.scopes == null || about.scopes.includes(scope);
}
