import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Writes a journal line with its checksum, without using the gateway's code. */
export function journalLine(json: string): string {
  const content = json.slice(0, -1);
  return `${content},"sum":${Bun.hash.crc32(content)}}\n`;
}

/** Removes the locks of all journals in a folder, so that their processes count as dead. */
export function unlockJournals(root: string): void {
  for (const name of readdirSync(root)) rmSync(join(root, name, 'lock'), { force: true });
}
