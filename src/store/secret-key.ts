import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GatewayError } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import { Secret, type SecretKeys } from '../core/secret.ts';
import { unusable } from './unusable.ts';

const fileName = 'secret.key';
const lengthMin = 32;

interface KeySettings {
  readonly secretKey: Secret | null;
  readonly formerSecretKey?: Secret | null;
  readonly dataDir: string;
}

/** What secrets in the store are encrypted with: as configured, or the data directory's own. */
export function secretKeysOf(settings: KeySettings): SecretKeys {
  return withFormer(settings.secretKey ?? secretKeyIn(settings.dataDir, make), settings);
}

/** The same, but no key is made: the former one alone, or undefined, where there is none yet. */
export function knownSecretKeys(settings: KeySettings): SecretKeys | undefined {
  const current = settings.secretKey ?? secretKeyIn(settings.dataDir, () => undefined);
  if (current) return withFormer(current, settings);
  return settings.formerSecretKey ? [settings.formerSecretKey] : undefined;
}

function withFormer(current: Secret, settings: KeySettings): SecretKeys {
  const former = settings.formerSecretKey ?? null;
  if (former === null) return [current];
  if (current.reveal() === former.reveal()) throw sameKey();
  return [current, former];
}

/** An operator who sets both to the same key believes that it was changed. */
function sameKey(): Error {
  return unusable(
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
  } catch (thrown) {
    if (thrown instanceof GatewayError) throw thrown;
    const why = failureCode(thrown) ?? String(thrown);
    throw unusable(`The secret key ${file} can neither be read nor made (${why}).`, thrown);
  }
}

function read(file: string): Secret | undefined {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (thrown) {
    if (failureCode(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
  if (text.length >= lengthMin) return new Secret(text);
  throw unusable(`The secret key ${file} is damaged: it has fewer than ${lengthMin} characters.`);
}

/**
 * Made at the first call, and the same ever after. Of ten processes that start at once exactly one
 * makes the key: a link to a file that exists fails, and unlike a file opened with O_EXCL it never
 * shows a key that is only half written.
 */
function make(dataDir: string, file: string): Secret {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const draft = `${file}.${randomBytes(8).toString('hex')}`;
  const text = `${randomBytes(32).toString('hex')}\n`;
  try {
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true });
    place(draft, file, text);
  } catch (thrown) {
    if (failureCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    rmSync(draft, { force: true });
  }
  const made = read(file);
  if (made) return made;
  throw unusable(`The secret key ${file} vanished as it was made.`);
}

/** How file systems without links say so: exFAT, for one, and some network shares. */
const linkless = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

function place(draft: string, file: string, text: string): void {
  try {
    linkSync(draft, file);
  } catch (thrown) {
    if (!linkless.has(failureCode(thrown) ?? '')) throw thrown;
    // A process that starts at this very moment may find half a key, and be refused once.
    writeFileSync(file, text, { mode: 0o600, flag: 'wx', flush: true });
  }
}
