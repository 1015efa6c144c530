import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { failureCode, failureMessage } from '../../core/errors.ts';

/** One thing that is looked at; a line of the doctor's report. */
export interface Check {
  readonly name: string;
  /** Undefined if there is nothing to check, or if another check reports the reason. */
  run(): Promise<Finding | undefined> | Finding | undefined;
}

export interface Finding {
  readonly isHealthy: boolean;
  /** One sentence, with numbers. */
  readonly found: string;
  /** One sentence with what to do; null if all is well or `found` already says what to do. */
  readonly fix: string | null;
}

/** How long a server may take to answer one check. */
export const checkTimeoutMs = 10_000;

export function healthy(found: string): Finding {
  return { isHealthy: true, found, fix: null };
}

export function unhealthy(found: string, fix: string | null = null): Finding {
  return { isHealthy: false, found, fix };
}

/** Runs the check; an error that it throws becomes a finding, too. */
export async function runCheck(check: Check): Promise<Finding | undefined> {
  try {
    return await check.run();
  } catch (error) {
    return unhealthy(failureMessage(error));
  }
}

/** Room for the journal and the database of a busy hour; with less, the next burst may not fit. */
const freeBytesMin = 256 * 2 ** 20;

export function dataFolder({ dataDir }: Config): Check {
  return { name: 'data folder', run: () => folderFinding(dataDir, 'data_dir') };
}

/**
 * Checks a folder that the gateway writes to or makes at its first start. `option` is the setting
 * that names it; `names` are the gateway's files in it, without `names` all files are.
 */
export function folderFinding(folder: string, option: string, names?: readonly string[]): Finding {
  const path = resolve(folder);
  const nearest = nearestExisting(path);
  if (!statSync(nearest).isDirectory()) {
    return unhealthy(`${nearest} is a file, not a folder.`, `Set ${option} to another path.`);
  }
  const unwritable = unwritableIn(nearest, nearest === path ? names : []);
  if (unwritable !== undefined) {
    const found = `This user may not write to ${unwritable.path} (${unwritable.code}).`;
    return unhealthy(found, permissionFix(unwritable, option));
  }
  const { bavail, bsize } = statfsSync(nearest);
  const free = bavail * bsize;
  if (free < freeBytesMin) {
    const found = `Only ${formatSize(free)} are free on the disk of ${path}.`;
    return unhealthy(
      found,
      `Make room for at least ${formatSize(freeBytesMin)}, or move ${option}.`,
    );
  }
  const can = nearest === path ? 'can be written' : 'is not there yet; the first start can make it';
  return healthy(`${path} ${can}. ${formatSize(free)} are free.`);
}

function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}

/**
 * Finds what this user may not write: files in the folder may be root's after a command run as
 * root.
 */
function unwritableIn(folder: string, names?: readonly string[]) {
  const code = access(folder);
  if (code !== undefined) return { path: folder, code };
  for (const name of names ?? readdirSync(folder)) {
    const path = join(folder, name);
    const code = access(path);
    if (code !== undefined) return { path, code };
  }
  return undefined;
}

/** What lets this user write there: a file of its own that is closed cannot be given to it. */
function permissionFix({ path, code }: { path: string; code: string }, option: string): string {
  if (code === 'EROFS') return `Mount its disk so that it can be written, or move ${option}.`;
  if (statSync(path).uid === process.getuid?.()) return `Open it: chmod -R u+rwX "${path}"`;
  return `Give it to the user that runs Tollgate: chown -R "$(id -u)" "${path}"`;
}

/** The error code, such as EACCES, if the path may not be read and written. */
function access(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    const code = failureCode(error);
    // A running gateway may have removed the file since it was listed.
    return code === 'ENOENT' ? undefined : (code ?? String(error));
  }
}

function formatSize(bytes: number): string {
  const gib = bytes / 2 ** 30;
  return gib >= 1 ? `${gib.toFixed(1)} GiB` : `${Math.floor(bytes / 2 ** 20)} MiB`;
}
