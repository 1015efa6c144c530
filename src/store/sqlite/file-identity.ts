import { statSync } from 'node:fs';

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
