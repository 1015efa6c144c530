import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { failureCode } from '../../core/errors.ts';
import type { LedgerStore, Settlement } from '../ledger.ts';
import { type SettlementEntry, toSettlementEntry } from '../ledger.ts';
import {
  type DispatchedRequest,
  type JournalOwner,
  readFolderName,
  readLines,
  unfinishedSettlement,
} from './journal-files.ts';
import { hasLockFile, JournalLock } from './journal-lock.ts';
import { releasedAnswers } from './released-answers.ts';
import { type Failure, withoutCharge } from './write-off.ts';

/** After this long without a heartbeat, a process on another host counts as dead. */
const silenceMs = 300_000;
const batchMax = 1_000;
/** Live processes write 2 heartbeats between polls. */
const pollMs = 60_000;

const unreleased: Failure = {
  error: 'internal_error',
  note: 'The gateway stopped before it sent the end of this answer. Nothing is charged.',
};

/** Called with a folder and the number of damaged lines that were skipped. */
export type OnDamaged = (folder: string, lines: number) => void;

/**
 * Commits the journals of dead processes and frees their leases. Requests that were committed
 * before are recognized by their IDs. Returns the number of replayed requests.
 */
export async function replayJournals(
  root: string,
  store: LedgerStore,
  now: number,
  onDamaged?: OnDamaged,
): Promise<number> {
  return replay(root, deadJournals(root, now), store, now, onDamaged);
}

/** Returns the journal folders of processes that are known to be dead. */
export function deadJournals(root: string, now: number): readonly string[] {
  return ifExists(() => readdirSync(root), []).filter((name) => {
    const owner = readFolderName(name);
    return owner && !isProcessAlive(owner, join(root, name), now);
  });
}

/**
 * Replays journals whose processes turn out to be dead later. A process on this host is dead if its
 * lock is free. A process on another host, or of a version without locks, is also recognized by
 * missing heartbeats. Silence is measured in polls, not in time: after this machine was suspended,
 * all heartbeats look old.
 */
export class LateReplay {
  readonly everyMs = pollMs;
  readonly #root: string;
  readonly #store: LedgerStore;
  readonly #ownProcessId: string;
  readonly #onDamaged: OnDamaged | undefined;
  /** Per journal, its last heartbeat and the number of polls that found it unchanged. */
  #seen = new Map<string, { readonly touchedAt: number; readonly unchangedPolls: number }>();

  constructor(root: string, store: LedgerStore, ownProcessId: string, onDamaged?: OnDamaged) {
    this.#root = root;
    this.#store = store;
    this.#ownProcessId = ownProcessId;
    this.#onDamaged = onDamaged;
  }

  /** Replays journals that have become silent. Returns the number of replayed requests. */
  async poll(now: number): Promise<number> {
    const before = this.#seen;
    this.#seen = new Map();
    for (const name of ifExists(() => readdirSync(this.#root), [])) {
      const owner = readFolderName(name);
      if (!owner || owner.processId === this.#ownProcessId) continue;
      const touchedAt = ifExists(() => statSync(join(this.#root, name)).mtimeMs, 0);
      const last = before.get(name);
      const unchangedPolls = last?.touchedAt === touchedAt ? last.unchangedPolls + 1 : 0;
      this.#seen.set(name, { touchedAt, unchangedPolls });
    }
    const candidates = [...this.#seen]
      .filter(([name, seen]) => seen.unchangedPolls * pollMs >= silenceMs || this.#isLocal(name))
      .map(([name]) => name);
    return replay(this.#root, candidates, this.#store, now, this.#onDamaged);
  }

  /** Returns true if the lock alone shows whether the journal's process is alive. */
  #isLocal(name: string): boolean {
    return readFolderName(name)?.host === hostname() && hasLockFile(join(this.#root, name));
  }
}

async function replay(
  root: string,
  names: readonly string[],
  store: LedgerStore,
  now: number,
  onDamaged: OnDamaged = () => {},
): Promise<number> {
  let replayed = 0;
  for (const name of names) {
    const folder = join(root, name);
    const owner = readFolderName(name);
    const lock = owner && ifExists(() => JournalLock.tryOpen(folder), undefined);
    // A held lock belongs to the journal's process, or to another one that is replaying it.
    if (!lock) continue;
    try {
      replayed += await replayOne(folder, owner.processId, store, now, onDamaged);
    } finally {
      lock.release();
    }
  }
  return replayed;
}

async function replayOne(
  folder: string,
  processId: string,
  store: LedgerStore,
  now: number,
  onDamaged: OnDamaged,
): Promise<number> {
  let replayed = 0;
  let damaged = 0;
  let entries: SettlementEntry[] = [];
  const commit = async () => {
    const batch = { processId, entries, mayRepeat: true, isReplay: true, now };
    if (entries.length > 0) await store.commit(batch);
    replayed += entries.length;
    entries = [];
  };
  for await (const settlement of settlementsIn(folder, () => damaged++)) {
    entries.push(toSettlementEntry(settlement));
    if (entries.length === batchMax) await commit();
  }
  await commit();
  await store.expire(now, processId);
  if (damaged > 0) onDamaged(folder, damaged);
  rmSync(folder, { recursive: true, force: true });
  return replayed;
}

/** Reads one segment at a time, because a journal may be 1 GB. */
async function* settlementsIn(folder: string, onDamaged: () => void): AsyncGenerator<Settlement> {
  const inProgress = new Map<string, DispatchedRequest>();
  const released = ifExists(() => releasedAnswers(folder), undefined);
  const isUnreleased = ({ journalNumber }: Settlement) =>
    released !== undefined && journalNumber !== undefined && !released.has(journalNumber);
  const names = ifExists(() => readdirSync(folder), []).filter((name) => name.endsWith('.jsonl'));
  for (const name of names.toSorted()) {
    const text = ifExists(() => readFileSync(join(folder, name), 'utf8'), '');
    for (const line of readLines(text, onDamaged)) {
      if (line.kind === 'dispatched') inProgress.set(line.call.requestId, line.call);
      else {
        const { settlement } = line;
        inProgress.delete(settlement.record.requestId);
        yield isUnreleased(settlement) ? withoutCharge(settlement, unreleased) : settlement;
      }
    }
    // Yield, so that a long journal doesn't block requests.
    await Bun.sleep(0);
  }
  for (const call of inProgress.values()) yield unfinishedSettlement(call);
}

/** Returns a fallback for missing files: another process may replay and remove the same journal. */
function ifExists<Found>(read: () => Found, fallback: Found): Found {
  try {
    return read();
  } catch (error) {
    if (failureCode(error) === 'ENOENT') return fallback;
    throw error;
  }
}

/**
 * Returns true if a journal's process may be alive: if its lock is held, or if another host, where
 * locks may not be visible, has sent a heartbeat. A journal without a lock is of an older version.
 * If it has our own PID, it belongs to a predecessor, because in a container, every start of the
 * gateway has PID 1. Any other PID in use counts as alive, although another program may have it;
 * `LateReplay` watches such journals. A missing heartbeat alone isn't proof on this host, because
 * the clock may have been set ahead.
 */
function isProcessAlive({ host, pid }: JournalOwner, folder: string, now: number): boolean {
  const isLocked = hasLockFile(folder);
  if (isLocked && !isLockFree(folder)) return true;
  if (host !== hostname()) return now - ifExists(() => statSync(folder).mtimeMs, 0) < silenceMs;
  if (isLocked || pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // The process exists, but belongs to another user.
    return failureCode(error) === 'EPERM';
  }
}

function isLockFree(folder: string): boolean {
  const lock = ifExists(() => JournalLock.tryOpen(folder), undefined);
  lock?.release();
  return lock !== undefined;
}
