import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { toKnown } from './authenticate.ts';
import type { Directory } from './directory.ts';

/**
 * The caller behind a key that was admitted before, for a job that it left with us. A key does no
 * more work once it was deleted or disabled, has expired, or may no longer have jobs.
 */
export async function callerOfKey(
  directory: Pick<Directory, 'getKey' | 'getTenant'>,
  tenantId: string,
  keyId: string,
  now: number,
): Promise<Caller> {
  const key = await directory.getKey(tenantId, keyId);
  const tenant = await directory.getTenant(tenantId);
  if (!key || !tenant) throw refused('The API key of this job has been deleted.');
  const { caller, refusal } = toKnown({ key, tenant, secretExpiresAt: null });
  if (refusal !== null) throw refused(refusal);
  if (caller.expiresAt !== null && caller.expiresAt <= now) {
    throw refused('The API key of this job has expired.');
  }
  if (caller.scopes && !caller.scopes.includes('jobs')) {
    const message = 'The API key of this job does not have the scope "jobs" any more.';
    throw new GatewayError('forbidden', message);
  }
  return caller;
}

function refused(message: string): GatewayError {
  return new GatewayError('invalid_api_key', message);
}
