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

/** Silent for so long means dead: living processes, on any host, touch their journals often. */
const silenceMs = 300_000;
const batchMax = 1_000;
/** Living processes touch their journals twice between two looks. */
const pollMs = 60_000;

/** Called with a folder and how many of its lines were damaged, and therefore left out. */
export type OnDamaged = (folder: string, lines: number) => void;

/**
 * Books what dead processes left in their journals, then frees their leases. Whatever was booked
 * before they died is recognised by its request id.
 */
export async function replayJournals(
  root: string,
  store: LedgerStore,
  now: number,
  onDamaged?: OnDamaged,
): Promise<number> {
  return replay(root, deadJournals(root, now), store, now, onDamaged);
}

/** The folders of processes that are known to be dead. */
export function deadJournals(root: string, now: number): readonly string[] {
  return ifExists(() => readdirSync(root), []).filter((name) => {
    const owner = readFolderName(name);
    return owner && !isProcessAlive(owner, join(root, name), now);
  });
}

/**
 * Books journals whose processes are only later known to be dead: one of another host, or one whose
 * number was given to another process, is known by its silence. The silence must last while we look
 * on, since a machine that slept finds everybody silent.
 */
export class LateReplay {
  readonly everyMs = pollMs;
  readonly #root: string;
  readonly #store: LedgerStore;
  readonly #ownProcessId: string;
  readonly #onDamaged: OnDamaged | undefined;
  /** When each journal was last touched, and how often we have found that unchanged. */
  #seen = new Map<string, { readonly touchedAt: number; readonly unchangedPolls: number }>();

  constructor(root: string, store: LedgerStore, ownProcessId: string, onDamaged?: OnDamaged) {
    this.#root = root;
    this.#store = store;
    this.#ownProcessId = ownProcessId;
    this.#onDamaged = onDamaged;
  }

  /** Answers how many requests were booked. */
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
    const isSilent = ([, { unchangedPolls }]: [string, { unchangedPolls: number }]) =>
      unchangedPolls * pollMs >= silenceMs;
    const dead = [...this.#seen].filter(isSilent).map(([name]) => name);
    return replay(this.#root, dead, this.#store, now, this.#onDamaged);
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
    const owner = readFolderName(name);
    if (!owner) continue;
    const { processId } = owner;
    const folder = join(root, name);
    let damaged = 0;
    let entries: SettlementEntry[] = [];
    const commit = async () => {
      if (entries.length > 0) await store.commit({ processId, entries, mayRepeat: true, now });
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
  }
  return replayed;
}

/** Segment by segment: a journal may have grown to a gigabyte. */
async function* settlementsIn(folder: string, onDamaged: () => void): AsyncGenerator<Settlement> {
  const inProgress = new Map<string, DispatchedRequest>();
  for (const name of ifExists(() => readdirSync(folder), []).toSorted()) {
    const text = ifExists(() => readFileSync(join(folder, name), 'utf8'), '');
    for (const line of readLines(text, onDamaged)) {
      if (line.kind === 'dispatched') inProgress.set(line.call.requestId, line.call);
      else {
        inProgress.delete(line.settlement.record.requestId);
        yield line.settlement;
      }
    }
    // A long journal must not block the requests that this process serves meanwhile.
    await Bun.sleep(0);
  }
  for (const call of inProgress.values()) yield unfinishedSettlement(call);
}

/**
 * Another process may replay the same journal, and removes it once all of it is in the books: what
 * is gone while we read needs no reading.
 */
function ifExists<Found>(read: () => Found, fallback: Found): Found {
  try {
    return read();
  } catch (error) {
    if (failureCode(error) === 'ENOENT') return fallback;
    throw error;
  }
}

/**
 * A process number alone proves nothing: a journal with our own number is a predecessor's
 * (containers start everything as process 1), and after a reboot any program may have the number.
 * Nor does silence alone: a clock that was set ahead makes everybody silent. So a journal whose
 * number is in use counts as alive here, and `LateReplay` watches it.
 */
function isProcessAlive({ host, pid }: JournalOwner, folder: string, now: number): boolean {
  if (host !== hostname()) return now - ifExists(() => statSync(folder).mtimeMs, 0) < silenceMs;
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Somebody else's process: it lives, and is not ours to signal.
    return failureCode(error) === 'EPERM';
  }
}
