import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomText } from '../../core/ids.ts';
import type { ObjectLinks, ObjectStorage } from '../../jobs/object-storage.ts';
import { type Database, inTransaction, type ReadOnlyDatabase } from '../database.ts';
import { storeError } from '../errors.ts';
import { getOrCreateSetting, readSetting, replaceSetting } from '../settings.ts';
import { FileObjects } from './files.ts';
import { parseS3Address, type S3Credentials, S3Objects } from './s3.ts';

type S3Identity = S3Credentials & { readonly region: string | null };

/** Opens a folder, or a bucket as `parseS3Address` reads it. */
export function openObjects(
  address: string,
  credentials: S3Identity,
  links: Pick<ObjectLinks, 'make'>,
): ObjectStorage {
  if (address.startsWith('file:')) return new FileObjects(address.slice('file:'.length), links);
  if (address.startsWith('s3://')) return openS3Objects(address, credentials, links);
  throw storeError('The objects URL must start with file: or s3://.');
}

/** A call fails after `timeoutMs` without a response. The default is 30 s. */
export function openS3Objects(
  address: string,
  credentials: S3Identity,
  links: Pick<ObjectLinks, 'make'>,
  timeoutMs?: number,
): ObjectStorage {
  const location = parseS3Address(address);
  const region = location.region ?? credentials.region;
  return new S3Objects({ ...location, region }, credentials, links, timeoutMs);
}

/**
 * All processes on a store take jobs from one queue, so they must share one object store. On
 * startup, each process compares its object store's name with the one saved here by the last
 * startup, and then saves its own. An address isn't enough, because every machine has its own
 * folder ./data/objects.
 */
const objectsLocationSetting = 'objects_location';

/** Saves where the objects are. Returns false if the last startup used another location. */
export function claimObjectsLocation(database: Database, address: string): Promise<boolean> {
  return inTransaction(database, async (trx) => {
    // Locked, so that only one of several starting processes names the folder.
    const before = await getOrCreateSetting(trx, objectsLocationSetting, '');
    const location = knownLocation(address) ?? nameFolder(address);
    // Don't fail here, because an unwritable folder causes errors in the jobs that need it.
    if (location === undefined) return true;
    if (before !== location) await replaceSetting(trx, objectsLocationSetting, location);
    return before === '' || before === location;
  });
}

/** Compares without saving, for read-only commands. */
export async function isObjectsLocation(
  database: ReadOnlyDatabase,
  address: string,
): Promise<boolean> {
  const last = (await readSetting(database, objectsLocationSetting)) ?? '';
  return last === '' || last === knownLocation(address);
}

/** Returns undefined for a folder that no startup has named yet. */
function knownLocation(address: string): string | undefined {
  if (!address.startsWith('file:')) {
    const { bucket, prefix } = parseS3Address(address);
    return `s3://${bucket}/${prefix}`;
  }
  try {
    return readFileSync(nameFile(address), 'utf8').trim();
  } catch {
    return undefined;
  }
}

function nameFolder(address: string): string | undefined {
  const name = randomText(16);
  try {
    writeFileSync(nameFile(address), `${name}\n`, { mode: 0o600, flush: true });
    return name;
  } catch {
    return undefined;
  }
}

/** No object key starts with a dot, so this file can't be mistaken for an object. */
function nameFile(address: string): string {
  return join(address.slice('file:'.length), '.location');
}
