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
import { slipOf } from './slip.ts';

/** A living process touches its journal far more often, wherever on a shared disk it runs. */
const silenceMs = 300_000;
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
      const slips = settlements.slice(at, at + batchMax).map(slipOf);
      const { processId } = owner;
      await store.commit({ processId, slips, mayRepeat: true, now });
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
  for (const name of ifThere(() => readdirSync(folder), []).toSorted()) {
    for (const line of readLines(ifThere(() => readFileSync(join(folder, name), 'utf8'), ''))) {
      if (line.kind === 'dispatched') underWay.set(line.call.requestId, line.call);
      else settlements.push(line.settlement);
    }
  }
  for (const { record } of settlements) underWay.delete(record.requestId);
  return [...settlements, ...[...underWay.values()].map(diedOf)];
}

/** Somebody who replays the same journal removes it only when all of it is in the books. */
function ifThere<Found>(read: () => Found, otherwise: Found): Found {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return otherwise;
    throw thrown;
  }
}

/**
 * A number alone proves nothing: our own, met again, is a predecessor's (containers start
 * everything as process 1), and after a reboot any program may have it.
 */
function isAlive({ host, pid }: JournalOwner, folder: string, now: number): boolean {
  const touchedAt = ifThere(() => statSync(folder).mtimeMs, 0);
  const isSilent = now - touchedAt >= silenceMs;
  if (isSilent || host !== hostname()) return !isSilent;
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    // Somebody else's process: it lives, and is not ours to signal.
    return thrown instanceof Error && 'code' in thrown && thrown.code === 'EPERM';
  }
}
