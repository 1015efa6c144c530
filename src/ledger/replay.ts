import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  type Dispatched,
  diedOf,
  type JournalOwner,
  readFolderName,
  readLines,
} from './journal-lines.ts';
import type { LedgerStore, Settlement } from './ledger-store.ts';

/** Journals of another host on a shared disk are left alone this long after their last line. */
const foreignSilenceMs = 300_000;
const batchMax = 1_000;

/**
 * Books what dead processes left in their journals, then frees their leases. Whatever was booked
 * before they died is recognised by its request id.
 */
export async function replayJournals(
  root: string,
  store: LedgerStore,
  now: number,
): Promise<number> {
  if (!existsSync(root)) return 0;
  let replayed = 0;
  for (const name of readdirSync(root)) {
    const owner = readFolderName(name);
    const folder = join(root, name);
    if (!owner || isAlive(owner, folder, now)) continue;
    const settlements = readFolder(folder);
    for (let at = 0; at < settlements.length; at += batchMax) {
      const batch = settlements.slice(at, at + batchMax);
      const { processId } = owner;
      await store.commit({ processId, settlements: batch, mayRepeat: true, now });
    }
    await store.expire(now, owner.processId);
    rmSync(folder, { recursive: true, force: true });
    replayed += settlements.length;
  }
  return replayed;
}

function readFolder(folder: string): Settlement[] {
  const underWay = new Map<string, Dispatched>();
  const settlements: Settlement[] = [];
  for (const name of readdirSync(folder).sort()) {
    for (const line of readLines(readFileSync(join(folder, name), 'utf8'))) {
      if (line.kind === 'dispatched') underWay.set(line.call.requestId, line.call);
      else settlements.push(line.settlement);
    }
  }
  for (const { record } of settlements) underWay.delete(record.requestId);
  return [...settlements, ...[...underWay.values()].map(diedOf)];
}

/** Our own number, met again, is a predecessor's: containers start everything as process 1. */
function isAlive({ host, pid }: JournalOwner, folder: string, now: number): boolean {
  if (host !== hostname()) return now - statSync(folder).mtimeMs < foreignSilenceMs;
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    // Somebody else's process: it lives, and is not ours to signal.
    return thrown instanceof Error && 'code' in thrown && thrown.code === 'EPERM';
  }
}
