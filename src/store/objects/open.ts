import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomText } from '../../core/ids.ts';
import type { ObjectLinks, ObjectStorage } from '../../jobs/objects.ts';
import { type Database, inTransaction } from '../database.ts';
import { storeError } from '../errors.ts';
import { claimSetting, readSetting, replaceSetting } from '../settings.ts';
import { FileObjects } from './files.ts';
import { parseS3Address, type S3Credentials, S3Objects } from './s3.ts';

type S3Identity = S3Credentials & { readonly region: string | null };

/** `file:<folder>` or `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…`. */
export function openObjects(
  address: string,
  credentials: S3Identity,
  links: ObjectLinks,
): ObjectStorage {
  if (address.startsWith('file:')) return new FileObjects(address.slice('file:'.length), links);
  if (address.startsWith('s3://')) return openS3Objects(address, credentials);
  throw storeError('The objects address must start with file: or s3://.');
}

/** `patienceMs`: how long the storage may be silent until it counts as away; usually 30 s. */
export function openS3Objects(
  address: string,
  credentials: S3Identity,
  timeoutMs?: number,
): ObjectStorage {
  const location = parseS3Address(address);
  const region = location.region ?? credentials.region;
  return new S3Objects({ ...location, region }, credentials, timeoutMs);
}

/**
 * All processes on one store take jobs from one queue, so their objects must lie in one place. The
 * store keeps the name of the place that the last start used, and each start compares its own: an
 * address will not do, since every machine has its own folder ./data/objects.
 */
const objectsLocationSetting = 'objects_place';

/** Notes where the objects lie from now on; false when the last start had them elsewhere. */
export function claimObjectsLocation(database: Database, address: string): Promise<boolean> {
  return inTransaction(database, async (trx) => {
    // Locked, so that of several processes that start at once only one names the folder.
    const before = await claimSetting(trx, objectsLocationSetting, '');
    const location = knownLocation(address) ?? nameFolder(address);
    // Not refused here: a folder that cannot be written shows in the jobs that need it.
    if (location === undefined) return true;
    if (before !== location) await replaceSetting(trx, objectsLocationSetting, location);
    return before === '' || before === location;
  });
}

/** Compares without noting anything, for commands that only look. */
export async function isObjectsLocation(database: Database, address: string): Promise<boolean> {
  const last = (await readSetting(database, objectsLocationSetting)) ?? '';
  return last === '' || last === knownLocation(address);
}

/** Undefined for a folder that no start has named yet. */
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

/** No object's key begins with a dot, so this file cannot be taken for one. */
function nameFile(address: string): string {
  return join(address.slice('file:'.length), '.place');
}
