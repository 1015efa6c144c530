import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GatewayError } from '../core/errors.ts';
import { failureCode } from '../core/failure-code.ts';
import { randomText } from '../core/ids.ts';
import { readFolderName } from './journal-lines.ts';

/** Where the journals of all processes lie that share a data directory. */
export function journalRoot(dataDir: string): string {
  return join(dataDir, 'journal');
}

/**
 * Notes beside the journals which books they are for, and refuses those of others. In an empty or
 * mistyped database nobody has a wallet: every charge that waits in the journal would be written
 * off there, and removed as booked.
 */
export function claimJournals(dataDir: string, books: string): void {
  if (areJournalsOf(dataDir, books)) return;
  const root = journalRoot(dataDir);
  const file = ownerFile(root);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  // Never half written, also where several processes start at once.
  const draft = `${file}.${randomText(8)}`;
  writeFileSync(draft, `${books}\n`, { mode: 0o600, flush: true });
  renameSync(draft, file);
}

/** Whether the journals are noted as those of these books; throws for journals of other books. */
export function areJournalsOf(dataDir: string, books: string): boolean {
  const root = journalRoot(dataDir);
  const file = ownerFile(root);
  const owner = read(file);
  if (owner === books) return true;
  if (owner !== undefined && readdirSync(root).some(readFolderName)) throw ofOthers(root, file);
  return false;
}

function ownerFile(root: string): string {
  return join(root, 'books');
}

/** Says in a sentence why the operating system denies us a journal; other failures stay. */
export function journalFailure(thrown: unknown): unknown {
  if (!(thrown instanceof Error && 'syscall' in thrown && 'path' in thrown)) return thrown;
  const code = failureCode(thrown);
  const isDenied = code === 'EACCES' || code === 'EPERM';
  const advice = isDenied ? ': give its folder to the user that runs Tollgate' : '';
  const message = `The journal ${thrown.path} cannot be used (${code})${advice}.`;
  return new GatewayError('service_unavailable', message, { cause: thrown });
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (thrown) {
    if (failureCode(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}

function ofOthers(root: string, file: string): GatewayError {
  return new GatewayError(
    'service_unavailable',
    `The journal ${root} has requests of another database: start once with that one, or move the ` +
      `folder away; where this is an older copy of it, remove ${file}.`,
  );
}
