import { statSync } from 'node:fs';
import { failureCode, failureMessage, type GatewayError } from '../../core/errors.ts';
import { storeError } from '../errors.ts';

const reasons: Record<string, string> = {
  // A path of more than about 500 bytes is one that SQLite does not take.
  SQLITE_CANTOPEN: 'the path does not exist, is too long, or may not be written',
  // A start on a file that may only be read leaves these two, with the same rights.
  SQLITE_READONLY: 'it, or a file beside it whose name ends in -wal or -shm, may not be written',
  SQLITE_READONLY_DIRECTORY: 'its folder may not be written',
  SQLITE_NOTADB: 'it is not a SQLite database; restore a backup, or choose another data_dir',
  SQLITE_CORRUPT: 'it is damaged; stop what uses it, and restore a backup beside its journal',
  SQLITE_FULL: 'the disk is full',
  SQLITE_IOERR: 'the disk refuses to read or write it',
  SQLITE_BUSY: 'another process keeps it locked',
  EACCES: 'this user may not use its folder',
  ELOOP: 'its path is a link that leads back to itself',
  EROFS: 'the disk is read-only',
  ENOTDIR: 'a part of its path is a file, not a folder',
  EEXIST: 'a part of its path is a file, or a link that leads nowhere',
  ENAMETOOLONG: 'its path is too long',
};

/** One sentence for the operator about a file that cannot be used. */
export function fileFailure(path: string, error: unknown): GatewayError {
  return storeError(fileSentence(path, failureCode(error) ?? '', failureMessage(error)), error);
}

/** Codes that mean the file itself; the error for a file that was moved has its own sentence. */
const fileCodes = /^SQLITE_(?:CORRUPT|NOTADB|READONLY(?!_DBMOVED)|FULL|IOERR|CANTOPEN)/;

/** Any statement may meet a bad page or a full disk, long after the start. */
export function statementMessage(path: string, code: string | null, message: string): string {
  return fileCodes.test(code ?? '') ? fileSentence(path, code ?? '', message) : message;
}

function fileSentence(path: string, code: string, message: string): string {
  const reason = reasons[code] ?? reasons[code.split('_', 2).join('_')] ?? message;
  return `The database file ${path} cannot be used: ${reason}.`;
}

/** Device and inode of the file at a path; undefined where there is none. */
export function identityOf(path: string): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  return file && `${file.dev}:${file.ino}`;
}

/**
 * SQLite goes on writing to a file that was deleted, or replaced by a backup, and whatever is
 * booked there is lost.
 */
export function assertSameFile(path: string, identity: string | undefined): void {
  if (identityOf(path) === identity) return;
  const message = `The database file ${path} was moved, deleted or replaced while in use.`;
  throw Object.assign(new Error(message), { code: 'SQLITE_READONLY_DBMOVED' });
}
