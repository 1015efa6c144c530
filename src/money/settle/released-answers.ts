import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { failureCode } from '../../core/errors.ts';
import { NumberRanges } from '../../core/number-ranges.ts';

/**
 * With `fsync` durability, a charge is on disk for some milliseconds before its answer may end. If
 * the process is killed in between, the client didn't get the answer, so the charge is dropped. For
 * this, the numbers of answers that may end are written to a file next to each segment. They aren't
 * synced, because what a killed process wrote is never lost. After a power failure, which the boot
 * ID reveals, all charges that are on disk count.
 */
const extension = '.released';
const bootIdFile = 'boot-id';

/** Records that these answers may end. Throws if the disk is full. */
export function recordReleased(segmentPath: string, numbers: readonly number[]): void {
  if (numbers.length === 0) return;
  // The line break first and the semicolon last reveal a line of which only a part was written.
  appendFileSync(releasedPathOf(segmentPath), `\n${numbers.join(',')};`, { mode: 0o600 });
}

export function releasedPathOf(segmentPath: string): string {
  return `${segmentPath}${extension}`;
}

/** Records during which boot of the machine a journal is written, if the system has an ID. */
export function recordBootId(folder: string): void {
  const id = bootId();
  if (id !== undefined) writeFileSync(join(folder, bootIdFile), id, { mode: 0o600 });
}

/**
 * Returns the numbers of the answers of a dead process that may have ended, or undefined if all
 * may have: with `journal` durability, after a power failure, and without a boot ID.
 */
export function releasedAnswers(folder: string): NumberRanges | undefined {
  const id = bootId();
  if (id === undefined || readIfExists(join(folder, bootIdFile)) !== id) return undefined;
  const released = new NumberRanges();
  for (const name of readdirSync(folder).filter((name) => name.endsWith(extension))) {
    for (const line of (readIfExists(join(folder, name)) ?? '').split('\n')) {
      if (!/^[\d,]+;$/.test(line)) continue;
      for (const number of line.slice(0, -1).split(',')) released.add(Number(number));
    }
  }
  return released;
}

/** Linux changes this ID with every boot. Containers see that of their host. */
function bootId(): string | undefined {
  return readIfExists('/proc/sys/kernel/random/boot_id')?.trim() || undefined;
}

function readIfExists(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (failureCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
