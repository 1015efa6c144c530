import type { Stickiness } from '../config/model-schema.ts';

// Keeps the requests of a session at one endpoint and at one key, because prompt caches belong to
// an account. The choice depends only on the session and the candidates (rendezvous hashing), so
// all processes agree, and a failing candidate moves only its own sessions.

/** Where the session of a request is named. */
export interface SessionSource {
  readonly caller: { readonly tenantId: string };
  /** The header `x-session-id`. */
  readonly sessionId?: string | null;
  readonly operation: SessionOperation | undefined;
}

interface SessionOperation {
  readonly request: { readonly promptCacheKey?: string | null; readonly user: string | null };
  /** Returns the start of the prompt, which is the same in every request of a conversation. */
  promptStart?(): string;
}

/** Returns a hash of the request's session, or null if its requests may go anywhere. */
export function sessionOf(
  { caller, sessionId, operation }: SessionSource,
  stickiness: Stickiness = 'session',
): number | null {
  if (stickiness === 'off' || !operation) return null;
  const named = sessionNameIn(operation.request, sessionId);
  const session = named || (stickiness === 'prompt' ? operation.promptStart?.() : undefined);
  // Tenants choose these names, so two tenants may choose the same one.
  return session ? Bun.hash.xxHash32(`${caller.tenantId}\n${session}`) : null;
}

/** Returns the client's name for the session, if it sends one. */
export function sessionNameIn(
  { promptCacheKey, user }: SessionOperation['request'],
  sessionId?: string | null,
): string | null {
  return promptCacheKey || sessionId || user;
}

/** Ranks a candidate for a session. Over all sessions, its weight is how often it is first. */
export function stickyScore(session: number, name: string, weight: number): number {
  const unit = (Bun.hash.xxHash32(name, session) + 0.5) / 2 ** 32;
  return -weight / Math.log(unit);
}
