import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { requestData, requestJson } from './api.ts';
import type { Key, KeyKind, Scope } from './shapes.ts';

/** The signed-in user. Keys are stored for this tab only and sent only to this gateway. */
export interface Session {
  readonly key: string;
  readonly kind: KeyKind;
  /** The key as the API returns it; null for the admin token. */
  readonly keyObject: Key | null;
  /** The routing key that calls models. Users with a management key enter it separately. */
  readonly routingKey: string | null;
  setRoutingKey(key: string | null): void;
  signOut(): void;
}

const keyItem = 'tollgate.key';
const routingKeyItem = 'tollgate.routing-key';

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error('useSession needs a SessionContext.');
  return session;
}

export function kindOf(key: string): KeyKind | null {
  if (key.startsWith('sk-tg-')) return 'routing';
  if (key.startsWith('sk-mgmt-')) return 'management';
  return key.startsWith('sk-admin-') ? 'admin' : null;
}

export interface VerifiedKey {
  readonly key: string;
  readonly kind: KeyKind;
  readonly keyObject: Key | null;
}

/** Verifies a key with the gateway. Rejects with a message if it isn't valid. */
export async function verifyKey(key: string): Promise<VerifiedKey> {
  const kind = kindOf(key);
  if (kind === null) {
    throw new Error('Not a Tollgate key. Tollgate keys start with sk-tg-, sk-mgmt-, or sk-admin-.');
  }
  if (kind === 'admin') {
    await requestJson('/admin/v1/overview', { key });
    return { key, kind, keyObject: null };
  }
  return { key, kind, keyObject: await requestData<Key>('/v1/key', { key }) };
}

export const keyStorage = {
  key: (): string | null => sessionStorage.getItem(keyItem),
  routingKey: (): string | null => sessionStorage.getItem(routingKeyItem),
  store(key: string): void {
    sessionStorage.setItem(keyItem, key);
  },
  storeRoutingKey(key: string | null): void {
    if (key === null) sessionStorage.removeItem(routingKeyItem);
    else sessionStorage.setItem(routingKeyItem, key);
  },
  clear(): void {
    sessionStorage.removeItem(keyItem);
    sessionStorage.removeItem(routingKeyItem);
  },
};

/** Returns true if a key has a scope. Keys without a scope list have all scopes. */
export function hasScope(
  { kind, keyObject }: Pick<Session, 'kind' | 'keyObject'>,
  scope: Scope,
): boolean {
  if (kind === 'admin') return false;
  return kind === 'management' || keyObject?.scopes == null || keyObject.scopes.includes(scope);
}
