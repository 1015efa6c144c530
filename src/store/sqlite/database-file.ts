import { statSync } from 'node:fs';
import { failureCode, failureMessage, type GatewayError } from '../../core/errors.ts';
import { storeError } from '../errors.ts';

const reasons: Record<string, string> = {
  // SQLite rejects paths of more than about 500 bytes.
  SQLITE_CANTOPEN: 'the path does not exist, is too long, or is not writable',
  // A startup with a read-only file leaves these two files with the same permissions.
  SQLITE_READONLY: 'it, or the file next to it whose name ends in -wal or -shm, is not writable',
  SQLITE_READONLY_DIRECTORY: 'its folder is not writable',
  SQLITE_NOTADB: 'it is not a SQLite database; restore a backup, or choose another data_dir',
  SQLITE_CORRUPT:
    'it is damaged; stop all processes that use it, restore a backup, and keep the journal ' +
    'folder in place',
  SQLITE_FULL: 'the disk is full',
  SQLITE_IOERR: 'reading or writing it failed',
  SQLITE_BUSY: 'another process has locked it',
  EACCES: 'this user has no access to its folder',
  ELOOP: 'its path has a link that points to itself',
  EROFS: 'the disk is read-only',
  ENOTDIR: 'a part of its path is a file, not a folder',
  EEXIST: 'a part of its path is a file, or a broken link',
  ENAMETOOLONG: 'its path is too long',
};

/** Returns an error about an unusable database file. */
export function fileFailure(path: string, error: unknown): GatewayError {
  return storeError(fileSentence(path, failureCode(error) ?? '', failureMessage(error)), error);
}

/** Codes about the file itself. A moved file has its own message. */
const fileCodes = /^SQLITE_(?:CORRUPT|NOTADB|READONLY(?!_DBMOVED)|FULL|IOERR|CANTOPEN)/;

/**
 * Explains errors of statements, because a bad page or a full disk may not be found until long
 * after startup.
 */
export function statementMessage(path: string, code: string | null, message: string): string {
  return fileCodes.test(code ?? '') ? fileSentence(path, code ?? '', message) : message;
}

function fileSentence(path: string, code: string, message: string): string {
  const reason = reasons[code] ?? reasons[code.split('_', 2).join('_')] ?? message;
  return `The database file ${path} can't be used: ${reason}.`;
}

/** Returns device and inode of the file, or undefined if there is none. */
export function identityOf(path: string): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  return file && `${file.dev}:${file.ino}`;
}

/**
 * Throws if the file was deleted or replaced, for example by a backup. SQLite would keep writing to
 * the old file, and those writes would be lost.
 */
export function assertSameFile(path: string, identity: string | undefined): void {
  if (identityOf(path) === identity) return;
  const message = `The database file ${path} was moved, deleted, or replaced while in use.`;
  throw Object.assign(new Error(message), { code: 'SQLITE_READONLY_DBMOVED' });
}
