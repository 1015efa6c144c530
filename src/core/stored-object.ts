import { GatewayError } from './errors.ts';
import { randomText } from './ids.ts';
import { audioTypes } from './media/audio.ts';

/** Content types by the extension of the object's key, so drivers don't need to store them. */
const contentTypes: Readonly<Record<string, string>> = {
  ...audioTypes,
  json: 'application/json',
  txt: 'text/plain; charset=utf-8',
  srt: 'text/plain; charset=utf-8',
  vtt: 'text/vtt; charset=utf-8',
};

/** 26 characters from an alphabet of 36 have 134 random bits, so keys can't be guessed. */
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

/** Advice for processes that share a database but not their objects. */
export const shareObjectsHint =
  'Processes that share a database must share an object store. Set the objects option ' +
  '(OBJECTS_URL) to S3 or to a folder that all of them can access.';

/**
 * Creates the error for an object that only another process can read. That process may make the
 * next attempt.
 */
export function missingObject(what: string): GatewayError {
  const message = `${what} isn't in this process's object store. ${shareObjectsHint}`;
  return new GatewayError('internal_error', message);
}
