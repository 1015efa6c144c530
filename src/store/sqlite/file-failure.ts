import type { GatewayError } from '../../core/errors.ts';
import { failureCode, failureMessage } from '../../core/failure-code.ts';
import { unusable } from '../unusable.ts';

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
export function fileFailure(path: string, thrown: unknown): GatewayError {
  return unusable(fileSentence(path, failureCode(thrown) ?? '', failureMessage(thrown)), thrown);
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
