import { GatewayError } from './errors.ts';
import { randomText } from './ids.ts';
import { audioTypes } from './media/audio.ts';

/** Names of stored objects: made here, never taken from a client. */

/** What an object is follows from how its key ends, so that no driver has to keep it. */
const contentTypes: Readonly<Record<string, string>> = {
  ...audioTypes,
  json: 'application/json',
  txt: 'text/plain; charset=utf-8',
  srt: 'text/plain; charset=utf-8',
  vtt: 'text/vtt; charset=utf-8',
};

/** 26 of 36 symbols are 134 bits: nobody guesses a key. */
const randomLength = 26;
const keyPattern = /^[0-9a-z]{26}\.([0-9a-z]{2,5})$/;

export function newObjectKey(extension: string): string {
  return `${randomText(randomLength)}.${extension}`;
}

export function isObjectKey(text: string): boolean {
  const [, extension = ''] = keyPattern.exec(text) ?? [];
  return Object.hasOwn(contentTypes, extension);
}

export function contentTypeOf(key: string): string {
  return contentTypes[key.split('.')[1] ?? ''] ?? 'application/octet-stream';
}

/** What to do where processes on one database do not see each other's objects. */
export const shareObjectsHint =
  'Processes that share a database must share their objects: set objects (OBJECTS_URL) to S3, ' +
  'or to a folder that all of them reach.';

/** An object of another process that we cannot find; that process may make the next attempt. */
export function missingObject(what: string): GatewayError {
  const message = `${what} is not where this process keeps objects. ${shareObjectsHint}`;
  return new GatewayError('internal_error', message);
}
