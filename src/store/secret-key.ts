import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { failureCode, GatewayError } from '../core/errors.ts';
import { Secret, type SecretKeys } from '../core/secret.ts';
import { storeError } from './errors.ts';

const fileName = 'secret.key';
const lengthMin = 32;

interface KeySettings {
  readonly secretKey: Secret | null;
  readonly previousSecretKey?: Secret | null;
  readonly dataDir: string;
}

/** What secrets in the store are encrypted with: as configured, or the data directory's own. */
export function secretKeysOf(settings: KeySettings): SecretKeys {
  return withPrevious(settings.secretKey ?? secretKeyIn(settings.dataDir, createKey), settings);
}

/** The same, but no key is made: the former one alone, or undefined, where there is none yet. */
export function knownSecretKeys(settings: KeySettings): SecretKeys | undefined {
  const current = settings.secretKey ?? secretKeyIn(settings.dataDir, () => undefined);
  if (current) return withPrevious(current, settings);
  return settings.previousSecretKey ? [settings.previousSecretKey] : undefined;
}

function withPrevious(current: Secret, settings: KeySettings): SecretKeys {
  const previous = settings.previousSecretKey ?? null;
  if (previous === null) return [current];
  if (current.reveal() === previous.reveal()) throw sameKeyError();
  return [current, previous];
}

/** An operator who sets both to the same key believes that it was changed. */
function sameKeyError(): Error {
  return storeError(
    'TOLLGATE_FORMER_SECRET_KEY is the secret key itself: ' +
      'set TOLLGATE_SECRET_KEY to a new one, or move secret.key away.',
  );
}

/** The key in the file; what `orElse` gives where there is no file. */
function secretKeyIn<None>(
  dataDir: string,
  orElse: (dataDir: string, file: string) => None,
): Secret | None {
  const file = join(dataDir, fileName);
  try {
    return read(file) ?? orElse(dataDir, file);
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    const reason = failureCode(error) ?? String(error);
    throw storeError(`The secret key ${file} can neither be read nor made (${reason}).`, error);
  }
}

function read(file: string): Secret | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    if (failureCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  if (text.length >= lengthMin) return new Secret(text);
  throw storeError(`The secret key ${file} is damaged: it has fewer than ${lengthMin} characters.`);
}

/**
 * Made at the first call, and the same ever after. Of ten processes that start at once exactly one
 * makes the key: a link to a file that exists fails, and unlike a file opened with O_EXCL it never
 * shows a key that is only half written.
 */
function createKey(dataDir: string, file: string): Secret {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(8).toString('hex')}`;
  const text = `${randomBytes(32).toString('hex')}\n`;
  try {
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true });
    publishKey(draft, file, text);
  } catch (error) {
    if (failureCode(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  const created = read(file);
  if (created) return created;
  throw storeError(`The secret key ${file} vanished as it was made.`);
}

/** How file systems without links say so: exFAT, for one, and some network shares. */
const noLinkSupport = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

function publishKey(draft: string, file: string, text: string): void {
  try {
    linkSync(draft, file);
  } catch (error) {
    if (!noLinkSupport.has(failureCode(error) ?? '')) throw error;
    // A process that starts at this very moment may find half a key, and be refused once.
    writeFileSync(file, text, { mode: 0o600, flag: 'wx', flush: true });
  }
}
