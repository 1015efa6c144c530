import { statSync } from 'node:fs';

/** Where on which disk the file of that name begins. */
export function placeOf(path: string): string | undefined {
  const file = statSync(path, { throwIfNoEntry: false });
  return file && `${file.dev}:${file.ino}`;
}

/**
 * SQLite goes on with a file that was deleted, or that a backup has taken the place of, and
 * whatever is booked there is lost.
 */
export function assertThere(path: string, place: string | undefined): void {
  if (placeOf(path) === place) return;
  const message = `The database file ${path} was moved, deleted or replaced while in use.`;
  throw Object.assign(new Error(message), { code: 'SQLITE_READONLY_DBMOVED' });
}
