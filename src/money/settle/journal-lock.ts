import { Database } from 'bun:sqlite';
import { closeSync, existsSync, mkdirSync, openSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { failureCode, GatewayError, unavailable } from '../../core/errors.ts';
import { randomText } from '../../core/ids.ts';

const lockName = 'lock';

/**
 * The lock on a journal folder. The operating system frees it when its process ends, so a held lock
 * proves that the process is alive, even if it is suspended, and even if another process has the
 * same host name and PID, as in containers. It is the lock of an empty SQLite file, because the
 * runtime has no other file locks.
 */
export class JournalLock {
  readonly #file: Database;

  private constructor(file: Database) {
    this.#file = file;
  }

  /** Creates the folder if necessary, and locks it. Throws 503 if another process has it. */
  static open(folder: string): JournalLock {
    if (existsSync(folder)) return JournalLock.tryOpen(folder) ?? rejectSecondOwner(folder);
    // Lock the folder before it gets its name, so that no process takes it for a dead one's.
    const draft = join(dirname(folder), `.new-${randomText(8)}`);
    mkdirSync(draft, { recursive: true, mode: 0o700 });
    const lock = JournalLock.tryOpen(draft);
    // No other process knows the draft. A server of network files without locks reports the same.
    if (!lock) throw lockFailure(folder, Object.assign(new Error(), { code: 'ENOLCK' }));
    renameSync(draft, folder);
    return lock;
  }

  /** Locks an existing folder. Returns undefined if another process has it. */
  static tryOpen(folder: string): JournalLock | undefined {
    const path = join(folder, lockName);
    createFile(path);
    let file: Database | undefined;
    try {
      file = new Database(path);
      // Without this, SQLite would create a second file.
      file.run('pragma journal_mode = memory');
      file.run('begin exclusive');
      return new JournalLock(file);
    } catch (error) {
      file?.close();
      if (failureCode(error) === 'SQLITE_BUSY') return undefined;
      throw lockFailure(folder, error);
    }
  }

  release(): void {
    this.#file.close();
  }
}

/** Returns false for a journal of a version that didn't lock its journals. */
export function hasLockFile(folder: string): boolean {
  return existsSync(join(folder, lockName));
}

/**
 * Creates a file that only its owner may read, as SQLite wouldn't. Never opens an existing file,
 * because closing it would free the lock that this process may have on it.
 */
function createFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (failureCode(error) !== 'EEXIST') throw error;
  }
}

function rejectSecondOwner(folder: string): never {
  throw new GatewayError(
    'service_unavailable',
    `The journal ${folder} belongs to another process that is still running. Stop that process.`,
  );
}

function lockFailure(folder: string, cause: unknown): GatewayError {
  return unavailable(
    `The journal ${folder} can't be locked (${failureCode(cause)}). Make the user that runs ` +
      'Tollgate the owner of the folder, and keep it on a file system with file locks.',
    cause,
  );
}
