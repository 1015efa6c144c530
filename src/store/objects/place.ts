import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomText } from '../../core/ids.ts';
import { type Database, inTransaction } from '../database.ts';
import { claimSetting, readSetting, replaceSetting } from '../settings.ts';
import { readS3Place } from './s3.ts';

/**
 * All processes on one store take jobs from one queue, so their objects must lie in one place. The
 * store keeps the name of the place that the last start used, and each start compares its own: an
 * address will not do, since every machine has its own folder ./data/objects.
 */
const setting = 'objects_place';

/** Notes where the objects lie from now on; false when the last start had them elsewhere. */
export function claimPlace(database: Database, address: string): Promise<boolean> {
  return inTransaction(database, async (change) => {
    // Locked, so that of several processes that start at once only one names the folder.
    const before = await claimSetting(change, setting, '');
    const place = knownPlace(address) ?? nameFolder(address);
    // Not refused here: a folder that cannot be written shows in the jobs that need it.
    if (place === undefined) return true;
    if (before !== place) await replaceSetting(change, setting, place);
    return before === '' || before === place;
  });
}

/** Compares without noting anything, for commands that only look. */
export async function isPlaceOf(database: Database, address: string): Promise<boolean> {
  const last = (await readSetting(database, setting)) ?? '';
  return last === '' || last === knownPlace(address);
}

/** Undefined for a folder that no start has named yet. */
function knownPlace(address: string): string | undefined {
  if (!address.startsWith('file:')) {
    const { bucket, prefix } = readS3Place(address);
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
