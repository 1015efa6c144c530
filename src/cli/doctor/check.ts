import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { diskFreeBytesMin } from '../../core/bounds.ts';
import { failureCode, failureMessage } from '../../core/errors.ts';

/** A check of the doctor, which prints its finding as one line. */
export interface Check {
  readonly name: string;
  /** Returns undefined if there is nothing to check, or if another check reports the problem. */
  run(): Promise<Finding | undefined> | Finding | undefined;
}

export interface Finding {
  readonly isHealthy: boolean;
  /** What was found, in one sentence. */
  readonly found: string;
  /** What to do, in one sentence. Null if there is no problem or `found` already says it. */
  readonly fix: string | null;
}

/** The timeout of a check that calls a server. */
export const checkTimeoutMs = 10_000;

export function healthy(found: string): Finding {
  return { isHealthy: true, found, fix: null };
}

export function unhealthy(found: string, fix: string | null = null): Finding {
  return { isHealthy: false, found, fix };
}

/** Runs a check. An error becomes a finding. */
export async function runCheck(check: Check): Promise<Finding | undefined> {
  try {
    return await check.run();
  } catch (error) {
    return unhealthy(failureMessage(error));
  }
}

export function dataFolder({ dataDir }: Config): Check {
  return { name: 'data directory', run: () => folderFinding(dataDir, 'data_dir') };
}

/**
 * Checks a folder that the gateway writes to or creates on its first start. `option` is the setting
 * that names it. `names` are the gateway's files in it; by default, all files are checked.
 */
export function folderFinding(folder: string, option: string, names?: readonly string[]): Finding {
  const path = resolve(folder);
  const nearest = nearestExisting(path);
  if (!statSync(nearest).isDirectory()) {
    return unhealthy(`${nearest} is a file, not a folder.`, `Set ${option} to another path.`);
  }
  const unwritable = unwritableIn(nearest, nearest === path ? names : []);
  if (unwritable !== undefined) {
    const found = `This user can't write to ${unwritable.path} (${unwritable.code}).`;
    return unhealthy(found, permissionFix(unwritable, option));
  }
  const { bavail, bsize } = statfsSync(nearest);
  const free = bavail * bsize;
  if (free < diskFreeBytesMin) {
    const found = `The disk that holds ${path} has only ${formatSize(free)} free.`;
    return unhealthy(
      found,
      `Free at least ${formatSize(diskFreeBytesMin)}, or set ${option} to a folder on another disk.`,
    );
  }
  const state = nearest === path ? 'is writable' : "doesn't exist yet; the first start creates it";
  return healthy(`${path} ${state}. Its disk has ${formatSize(free)} free.`);
}

function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}

/**
 * Returns the first path that this user can't write to, or undefined. If a command was run as root,
 * its files belong to root.
 */
function unwritableIn(folder: string, names?: readonly string[]) {
  const code = accessError(folder);
  if (code !== undefined) return { path: folder, code };
  for (const name of names ?? readdirSync(folder)) {
    const path = join(folder, name);
    const code = accessError(path);
    if (code !== undefined) return { path, code };
  }
  return undefined;
}

/** Returns the fix for a path that this user can't write to. */
function permissionFix({ path, code }: { path: string; code: string }, option: string): string {
  if (code === 'EROFS') {
    return `Remount its disk as writable, or set ${option} to a folder on another disk.`;
  }
  if (statSync(path).uid === process.getuid?.())
    return `Make it writable: chmod -R u+rwX "${path}"`;
  return `Change its owner to the user that runs Tollgate: chown -R "$(id -u)" "${path}"`;
}

/** Returns the error code, such as EACCES, if this user can't read and write the path. */
function accessError(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    const code = failureCode(error);
    // A running gateway may have deleted the file since it was listed.
    return code === 'ENOENT' ? undefined : (code ?? String(error));
  }
}

function formatSize(bytes: number): string {
  const gib = bytes / 2 ** 30;
  return gib >= 1 ? `${gib.toFixed(1)} GiB` : `${Math.floor(bytes / 2 ** 20)} MiB`;
}
