import { claimedKind } from '../auth/api-key.ts';
import type { Authenticator } from '../auth/authenticate.ts';
import { readPresentedKey } from '../auth/presented-key.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import type { KeyedRoute } from './routes.ts';

/** Who is calling; refuses kinds of keys that this route is not for. */
export function admitKey(
  route: KeyedRoute,
  request: Request,
  authenticator: Authenticator,
): Caller | Promise<Caller> {
  const key = readPresentedKey(request.headers);
  if (claimedKind(key) === 'admin') return refuseAdmin(key, route, authenticator);
  const caller = authenticator.authenticate(key);
  return caller instanceof Promise ? caller.then((it) => admit(it, route)) : admit(caller, route);
}

async function refuseAdmin(
  key: string,
  route: KeyedRoute,
  authenticator: Authenticator,
): Promise<Caller> {
  if (await authenticator.isAdmin(key)) {
    throw forbidden('The admin token is for /admin/v1 only; use a tenant key here.');
  }
  return admit(await authenticator.authenticate(key), route);
}

function admit(caller: Caller, route: KeyedRoute): Caller {
  if (route.access === 'routing' && caller.kind === 'management') {
    throw forbidden('A management key cannot call models; use a routing key (sk-tg-…).');
  }
  if (route.access === 'management' && caller.kind === 'routing') {
    throw forbidden('This needs a management key (sk-mgmt-…); a routing key is not enough.');
  }
  return caller;
}

/** Returned, not thrown: a caller refused for its scope still gets the rate headers of its key. */
export function refusalOfScope(
  { scope }: KeyedRoute,
  { kind, scopes }: Caller,
): GatewayError | undefined {
  if (!scope || kind !== 'routing' || !scopes || scopes.includes(scope)) return undefined;
  return forbidden(`This API key does not have the scope "${scope}".`);
}

export async function admitAdmin(request: Request, authenticator: Authenticator): Promise<void> {
  const token = readPresentedKey(request.headers);
  if (await authenticator.isAdmin(token)) return;
  if (claimedKind(token) === 'admin') {
    throw new GatewayError('invalid_api_key', 'The admin token is not valid.');
  }
  // Unknown keys get 401 first: only real ones get 403, so a 403 never makes a guess look good.
  await authenticator.authenticate(token);
  throw forbidden('This needs the admin token (sk-admin-…).');
}

function forbidden(message: string): GatewayError {
  return new GatewayError('forbidden', message);
}
