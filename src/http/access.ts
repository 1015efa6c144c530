import { kindByPrefix, readPresentedKey } from '../auth/api-key.ts';
import type { Authenticator } from '../auth/authenticate.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import type { KeyedRoute } from './routes.ts';

/** Authenticates the caller and checks that the route accepts this kind of key. */
export function authorizeKey(
  route: KeyedRoute,
  request: Request,
  authenticator: Authenticator,
): Caller | Promise<Caller> {
  const key = readPresentedKey(request.headers);
  if (kindByPrefix(key) === 'admin') return rejectAdminToken(key, route, authenticator);
  const caller = authenticator.authenticate(key);
  return caller instanceof Promise
    ? caller.then((resolved) => checkAccess(resolved, route))
    : checkAccess(caller, route);
}

async function rejectAdminToken(
  key: string,
  route: KeyedRoute,
  authenticator: Authenticator,
): Promise<Caller> {
  if (await authenticator.isAdmin(key)) {
    throw forbidden(
      'The admin token works only for /admin/v1. Use a routing or management key here.',
    );
  }
  return checkAccess(await authenticator.authenticate(key), route);
}

function checkAccess(caller: Caller, route: KeyedRoute): Caller {
  if (route.access === 'routing' && caller.kind === 'management') {
    throw forbidden("A management key can't call models. Use a routing key (sk-tg-…).");
  }
  if (route.access === 'management' && caller.kind === 'routing') {
    throw forbidden('This endpoint requires a management key (sk-mgmt-…).');
  }
  return caller;
}

/** Returns the error instead of throwing it, so that the response still gets rate-limit headers. */
export function scopeError(
  { scope }: KeyedRoute,
  { kind, scopes }: Caller,
): GatewayError | undefined {
  if (!scope || kind !== 'routing' || !scopes || scopes.includes(scope)) return undefined;
  return forbidden(`This API key doesn't have the scope "${scope}".`);
}

export async function authorizeAdmin(
  request: Request,
  authenticator: Authenticator,
): Promise<void> {
  const token = readPresentedKey(request.headers);
  if (await authenticator.isAdmin(token)) return;
  if (kindByPrefix(token) === 'admin') {
    throw new GatewayError('invalid_api_key', "The admin token isn't valid.");
  }
  // Throws 401 for an unknown key, as other routes do. Only a valid key gets the 403 below.
  await authenticator.authenticate(token);
  throw forbidden('This endpoint requires the admin token (sk-admin-…).');
}

function forbidden(message: string): GatewayError {
  return new GatewayError('forbidden', message);
}
