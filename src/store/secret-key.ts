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

/** Returns the configured keys for secrets in the store, or creates one in the data directory. */
export function secretKeysOf(settings: KeySettings): SecretKeys {
  return withPrevious(settings.secretKey ?? secretKeyIn(settings.dataDir, createKey), settings);
}

/**
 * Like `secretKeysOf`, but never creates a key. Without a current key, returns only the previous
 * one.
 */
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

/** Prevents an operator from believing that the key was changed when both are the same. */
function sameKeyError(): Error {
  return storeError(
    'TOLLGATE_PREVIOUS_SECRET_KEY is the same as the current secret key. ' +
      'Set TOLLGATE_SECRET_KEY to a new key, or move secret.key to another folder.',
  );
}

/** Returns the key in the file, or the result of `orElse` if there is no file. */
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
    throw storeError(`The secret key file ${file} can't be read or created (${reason}).`, error);
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
  throw storeError(
    `The secret key file ${file} is damaged: it has fewer than ${lengthMin} characters.`,
  );
}

/**
 * Creates the key on the first call. If several processes start at once, exactly one of them
 * creates the key, because linking fails if the file exists. Unlike O_EXCL, linking never exposes a
 * half-written key.
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
  throw storeError(`The secret key file ${file} was deleted while it was being created.`);
}

/** Error codes of file systems without hard links, such as exFAT and some network shares. */
const noLinkSupport = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

function publishKey(draft: string, file: string, text: string): void {
  try {
    linkSync(draft, file);
  } catch (error) {
    if (!noLinkSupport.has(failureCode(error) ?? '')) throw error;
    // A process that starts at this moment may read half a key and fail once.
    writeFileSync(file, text, { mode: 0o600, flag: 'wx', flush: true });
  }
}
