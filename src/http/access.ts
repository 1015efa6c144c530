import { kindByPrefix, readPresentedKey } from '../auth/api-key.ts';
import type { Authenticator } from '../auth/authenticate.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import type { KeyedRoute } from './routes.ts';

/** Who is calling; refuses kinds of keys that this route is not for. */
export function authorizeKey(
  route: KeyedRoute,
  request: Request,
  authenticator: Authenticator,
): Caller | Promise<Caller> {
  const key = readPresentedKey(request.headers);
  if (kindByPrefix(key) === 'admin') return rejectAdminToken(key, route, authenticator);
  const caller = authenticator.authenticate(key);
  return caller instanceof Promise
    ? caller.then((it) => checkAccess(it, route))
    : checkAccess(caller, route);
}

async function rejectAdminToken(
  key: string,
  route: KeyedRoute,
  authenticator: Authenticator,
): Promise<Caller> {
  if (await authenticator.isAdmin(key)) {
    throw forbidden('The admin token is for /admin/v1 only; use a tenant key here.');
  }
  return checkAccess(await authenticator.authenticate(key), route);
}

function checkAccess(caller: Caller, route: KeyedRoute): Caller {
  if (route.access === 'routing' && caller.kind === 'management') {
    throw forbidden('A management key cannot call models; use a routing key (sk-tg-…).');
  }
  if (route.access === 'management' && caller.kind === 'routing') {
    throw forbidden('This needs a management key (sk-mgmt-…); a routing key is not enough.');
  }
  return caller;
}

/** Returned, not thrown: a caller refused for its scope still gets the rate headers of its key. */
export function scopeError(
  { scope }: KeyedRoute,
  { kind, scopes }: Caller,
): GatewayError | undefined {
  if (!scope || kind !== 'routing' || !scopes || scopes.includes(scope)) return undefined;
  return forbidden(`This API key does not have the scope "${scope}".`);
}

export async function authorizeAdmin(
  request: Request,
  authenticator: Authenticator,
): Promise<void> {
  const token = readPresentedKey(request.headers);
  if (await authenticator.isAdmin(token)) return;
  if (kindByPrefix(token) === 'admin') {
    throw new GatewayError('invalid_api_key', 'The admin token is not valid.');
  }
  // Unknown keys get 401 first: only real ones get 403, so a 403 never makes a guess look good.
  await authenticator.authenticate(token);
  throw forbidden('This needs the admin token (sk-admin-…).');
}

function forbidden(message: string): GatewayError {
  return new GatewayError('forbidden', message);
}
