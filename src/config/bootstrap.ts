import type { Problem } from '../core/explain.ts';
import { Secret } from '../core/secret.ts';
import type { Bootstrap } from './config.ts';
import type { Environment } from './read-file.ts';

const defaultCredits = 10_000_000;

/**
 * Keys that an unattended start gets from its environment. Their form is checked: a short key could
 * be guessed.
 */
export function readBootstrap(environment: Environment, problems: Problem[]): Bootstrap {
  const key = (name: string, prefix: string): Secret | null => {
    const value = environment[name];
    if (!value) return null;
    if (!value.startsWith(prefix) || value.length < 32 || !/^[\x21-\x7e]+$/.test(value)) {
      const message = `must start with ${prefix} and have at least 32 characters without spaces`;
      problems.push({ path: name, message });
      return null;
    }
    return new Secret(value);
  };
  return {
    apiKey: key('TOLLGATE_BOOTSTRAP_API_KEY', 'sk-tg-'),
    managementKey: key('TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY', 'sk-mgmt-'),
    adminToken: key('TOLLGATE_ADMIN_TOKEN', 'sk-admin-'),
    credits: readCredits(environment.TOLLGATE_BOOTSTRAP_CREDITS, problems),
  };
}

const secretKeyLengthMin = 32;

/** The key that encrypts tenants' credentials, if the operator keeps it outside the data folder. */
export function readSecretKey(
  path: 'TOLLGATE_SECRET_KEY' | 'TOLLGATE_FORMER_SECRET_KEY',
  environment: Environment,
  problems: Problem[],
): Secret | null {
  const value = environment[path];
  if (!value) return null;
  if (value.length >= secretKeyLengthMin) return new Secret(value);
  problems.push({ path, message: `must have at least ${secretKeyLengthMin} characters` });
  return null;
}

function readCredits(text: string | undefined, problems: Problem[]): number {
  if (!text) return defaultCredits;
  const credits = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(credits)) return credits;
  const path = 'TOLLGATE_BOOTSTRAP_CREDITS';
  problems.push({ path, message: 'must be a whole number of credits' });
  return defaultCredits;
}
