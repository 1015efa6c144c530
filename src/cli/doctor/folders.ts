import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import { failureCode } from '../../core/failure-code.ts';
import { type Check, type Finding, unwell, well } from './check.ts';

/** Room for the journal and the database of a busy hour; with less, the next burst may not fit. */
const freeBytesMin = 256 * 2 ** 20;

export function dataFolder({ dataDir }: Config): Check {
  return { name: 'data folder', look: () => folderFinding(dataDir, 'data_dir') };
}

/**
 * Checks a folder that the gateway writes to or makes at its first start. `option` is the setting
 * that names it; `names` are the gateway's files in it, without `names` all files are.
 */
export function folderFinding(folder: string, option: string, names?: readonly string[]): Finding {
  const path = resolve(folder);
  const there = nearestThere(path);
  if (!statSync(there).isDirectory()) {
    return unwell(`${there} is a file, not a folder.`, `Set ${option} to another path.`);
  }
  const closed = closedIn(there, there === path ? names : []);
  if (closed !== undefined) {
    const found = `This user may not write to ${closed.path} (${closed.code}).`;
    return unwell(found, wayIn(closed, option));
  }
  const { bavail, bsize } = statfsSync(there);
  const free = bavail * bsize;
  if (free < freeBytesMin) {
    const found = `Only ${size(free)} are free on the disk of ${path}.`;
    return unwell(found, `Make room for at least ${size(freeBytesMin)}, or move ${option}.`);
  }
  const can = there === path ? 'can be written' : 'is not there yet; the first start can make it';
  return well(`${path} ${can}. ${size(free)} are free.`);
}

function nearestThere(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestThere(dirname(path));
}

/**
 * Finds what this user may not write: files in the folder may be root's after a command run as
 * root.
 */
function closedIn(folder: string, names?: readonly string[]) {
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
function wayIn({ path, code }: { path: string; code: string }, option: string): string {
  if (code === 'EROFS') return `Mount its disk so that it can be written, or move ${option}.`;
  if (statSync(path).uid === process.getuid?.()) return `Open it: chmod -R u+rwX "${path}"`;
  return `Give it to the user that runs Tollgate: chown -R "$(id -u)" "${path}"`;
}

/** The error code, such as EACCES, if the path may not be read and written. */
function access(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (thrown) {
    const code = failureCode(thrown);
    // A running gateway may have removed the file since it was listed.
    return code === 'ENOENT' ? undefined : (code ?? String(thrown));
  }
}

function size(bytes: number): string {
  const gib = bytes / 2 ** 30;
  return gib >= 1 ? `${gib.toFixed(1)} GiB` : `${Math.floor(bytes / 2 ** 20)} MiB`;
}
