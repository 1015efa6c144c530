import { existsSync, fdatasync, rmSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { journalBytesMax } from '../../core/bounds.ts';
import type { SettlementEntry } from '../ledger.ts';
import {
  type DispatchedRequest,
  dispatchedLine,
  journalFolderName,
  Segment,
  settledLine,
  syncFolder,
} from './journal-files.ts';
import { hasLockFile, JournalLock } from './journal-lock.ts';
import { JournalReserve } from './journal-reserve.ts';
import { recordBootId, recordReleased } from './released-answers.ts';

/** A new segment starts at this size, so that committed ones can be removed. */
const segmentBytes = 4 * 1024 * 1024;
/** The current segment is removed only above this size, once all its lines are committed. */
const removableBytesMin = segmentBytes / 8;
/**
 * With `journal` durability, a power failure can lose the lines written during this time. A crash
 * of the process loses nothing.
 */
const syncMs = 50;
const retryMs = 250;

/** The lines of one event-loop turn, written together. They succeed or fail together. */
class LineBatch {
  lines = '';
  readonly requestIds: string[] = [];
  /** The requests whose `dispatched` line is in this batch. */
  readonly started: string[] = [];
  /** The numbers of the charges in this batch. */
  readonly charges: number[] = [];
  readonly written = Promise.withResolvers<void>();
  /** Resolves once the write was tried. Never rejects, and doesn't wait for a sync. */
  readonly tried = Promise.withResolvers<void>();
}

/** Bytes written to test for free space. Disks allocate pages, so one line isn't enough. */
const probeBytes = 4096;

/** Flushes a file to disk. */
type Sync = (file: number, done: (error: Error | null) => void) => void;

interface LateEntry {
  readonly entry: SettlementEntry;
  readonly resolve: (written: boolean) => void;
  readonly giveUpAt: number;
}

/**
 * A local, append-only journal of requests, so that no finished request is lost. A line is written
 * when an upstream call starts and another when it ends, before the client gets the end of the
 * answer. Lines of one event-loop turn share one write.
 */
export class Journal {
  readonly #folder: string;
  readonly #waitForDisk: boolean;
  readonly #sync: Sync;
  readonly #segments: Segment[] = [];
  #lock: JournalLock;
  #reserve: JournalReserve;
  #count = 0;
  #started = 0;
  #batch: LineBatch | undefined;
  /** `settled` lines that couldn't be written yet and are retried for a while. */
  #late: LateEntry[] = [];
  #retry: ReturnType<typeof setTimeout> | undefined;
  #syncing = false;
  readonly #unsynced = new Set<Segment>();
  #closed = false;
  /** True if the folder was removed. */
  #isFolderMissing = false;
  /** True if the last write succeeded. */
  #isWritable = true;

  constructor(
    root: string,
    processId: string,
    durability: 'journal' | 'fsync',
    sync: Sync = fdatasync,
  ) {
    this.#folder = join(root, journalFolderName(processId));
    this.#waitForDisk = durability === 'fsync';
    this.#sync = sync;
    this.#lock = this.#open();
    this.#reserve = new JournalReserve(this.#folder);
  }

  get bytes(): number {
    let sum = 0;
    for (const segment of this.#segments) sum += segment.bytes;
    return sum;
  }

  /** Requests started by this process, counted once their `dispatched` line is written. */
  get started(): number {
    return this.#started;
  }

  /** Returns the age of the oldest line whose request isn't committed, or 0. */
  ageMs(now: number): number {
    // Entries are in order, so the first one of each segment is the oldest.
    const oldest = this.#segments.map(
      ({ uncommitted }) => uncommitted.values().next().value ?? now,
    );
    return Math.max(0, ...oldest.map((since) => now - since));
  }

  /** Touches the journal for hosts that can't see its lock, so that they know we are alive. */
  async heartbeat(): Promise<void> {
    // The folder may have been moved, or replayed by a host that doesn't see our lock.
    this.#isFolderMissing = !existsSync(this.#folder);
    if (this.#isFolderMissing) return;
    if (!hasLockFile(this.#folder)) this.#lockAgain();
    const now = new Date();
    utimesSync(this.#folder, now, now);
  }

  /** Records that an upstream call is about to start. Rejects if it can't be written. */
  dispatched(call: DispatchedRequest): Promise<void> {
    const problem = this.#problem();
    if (problem !== undefined) return rejected(problem);
    const line = dispatchedLine(call);
    const batch = this.#currentBatch();
    batch.started.push(call.requestId);
    return this.#append(batch, call.requestId, line);
  }

  /**
   * Throws if no request can start. After a failed write, tests for free space, because a load
   * balancer stops sending requests after this failure, so no request would detect that the disk
   * has space again.
   */
  requireWritable(): void {
    const problem = this.#problem();
    if (problem !== undefined) throw new Error(problem);
    if (!this.#isWritable) this.#probeDisk();
  }

  #problem(): string | undefined {
    if (this.bytes > journalBytesMax) return 'The journal has reached its maximum size.';
    if (this.#closed) return 'The journal is closed.';
    return this.#late.length > 0 || !this.#reserve.restore() ? unwritable : undefined;
  }

  /** Writes empty lines at the current position. Replays ignore them. */
  #probeDisk(): void {
    try {
      this.#segment().write('\n'.repeat(probeBytes));
    } catch {
      // Don't expose the journal's path, because anybody may call the health endpoint.
      throw new Error(unwritable);
    }
    this.#isWritable = true;
  }

  /**
   * Records that a call ended. If this rejects because the line can't be written, call
   * `settledLate`.
   */
  settled(entry: SettlementEntry): Promise<void> {
    if (this.#closed) return rejected('The journal is closed.');
    const batch = this.#currentBatch();
    if (entry.journalNumber !== undefined) batch.charges.push(entry.journalNumber);
    return this.#append(batch, entry.requestId, settledLine(entry));
  }

  /**
   * Records that a free answer ended. Doesn't wait for a sync, and ignores failures, because a disk
   * failure shouldn't make a free answer fail. Returns a promise for the write, if one starts.
   */
  settledFree(entry: SettlementEntry): Promise<void> | void {
    if (this.#problem() !== undefined) return;
    const batch = this.#currentBatch();
    void this.#append(batch, entry.requestId, settledLine(entry)).catch(() => undefined);
    return batch.tried.promise;
  }

  /** Retries a failed line. Resolves to whether it was written within this time. */
  settledLate(entry: SettlementEntry, waitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      this.#late.push({ entry, resolve, giveUpAt: performance.now() + waitMs });
      this.#retry ??= setTimeout(() => this.#retryLate(), retryMs);
    });
  }

  /** Removes segments that aren't needed anymore, because these requests were committed. */
  committed(requestIds: readonly string[]): void {
    for (const segment of this.#segments)
      for (const id of requestIds) segment.uncommitted.delete(id);
    const current = this.#segments.at(-1);
    for (const segment of this.#segments.slice(0, -1)) {
      if (segment.uncommitted.size === 0) this.#remove(segment);
    }
    if (current && current.uncommitted.size === 0 && current.bytes > removableBytesMin)
      this.#remove(current);
  }

  /** Closes the journal. The next startup replays requests that aren't committed. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    const isCommitted = this.#segments.every((segment) => segment.uncommitted.size === 0);
    for (const segment of this.#segments.splice(0)) segment.close();
    this.#reserve.spend();
    if (isCommitted) rmSync(this.#folder, { recursive: true, force: true });
    this.#lock.release();
  }

  #segment(): Segment {
    const last = this.#segments.at(-1);
    // A file that was removed can't be replayed, so start a new one.
    const isUsable = last && !last.isRemoved && !this.#isFolderMissing;
    if (isUsable && last.bytes < segmentBytes) return last;
    if (!hasLockFile(this.#folder)) this.#lockAgain();
    const path = join(this.#folder, `${String(this.#count++).padStart(8, '0')}.jsonl`);
    const segment = new Segment(path, this.#waitForDisk);
    this.#segments.push(segment);
    this.#isFolderMissing = false;
    return segment;
  }

  #lockAgain(): void {
    const lock = this.#open();
    this.#lock.release();
    this.#lock = lock;
    this.#reserve = new JournalReserve(this.#folder);
  }

  #open(): JournalLock {
    const lock = JournalLock.open(this.#folder);
    if (!this.#waitForDisk) return lock;
    recordBootId(this.#folder);
    const root = dirname(this.#folder);
    for (const path of [dirname(root), root]) syncFolder(path);
    return lock;
  }

  #remove(segment: Segment): void {
    this.#segments.splice(this.#segments.indexOf(segment), 1);
    this.#unsynced.delete(segment);
    try {
      segment.remove();
    } catch {
      // All lines are committed, so the next startup recognizes their IDs. A failure here must not
      // fail the commit.
    }
  }

  #currentBatch(): LineBatch {
    if (this.#batch) return this.#batch;
    const batch = new LineBatch();
    this.#batch = batch;
    setImmediate(() => this.#flush(batch));
    return batch;
  }

  #append(batch: LineBatch, requestId: string, line: string): Promise<void> {
    batch.requestIds.push(requestId);
    batch.lines += line;
    return batch.written.promise;
  }

  #flush(batch: LineBatch): void {
    this.#batch = undefined;
    try {
      const segment = this.#write(batch.requestIds, batch.lines);
      if (this.#waitForDisk) {
        this.#syncAndRelease(segment, batch.charges, (error) =>
          error ? this.#fail(batch, error) : this.#succeed(batch),
        );
      } else this.#succeed(batch);
    } catch (error) {
      this.#fail(batch, error);
    }
    batch.tried.resolve();
  }

  #syncAndRelease(
    { file, path }: Segment,
    charges: readonly number[],
    done: (error: unknown) => void,
  ): void {
    this.#sync(file, (error) => {
      let failure: unknown = error;
      try {
        if (!error) this.#withReserve(() => recordReleased(path, charges));
      } catch (cause) {
        failure = cause;
      }
      done(failure);
    });
  }

  #succeed(batch: LineBatch): void {
    this.#started += batch.started.length;
    this.#isWritable = true;
    batch.written.resolve();
  }

  /** Requests whose `dispatched` line failed aren't sent. `settled` lines are retried later. */
  #fail(batch: LineBatch, reason: unknown): void {
    for (const { uncommitted } of this.#segments)
      for (const id of batch.started) uncommitted.delete(id);
    this.#isWritable = false;
    batch.written.reject(reason);
  }

  #write(requestIds: readonly string[], lines: string): Segment {
    const segment = this.#segment();
    // Add the requests before writing, because a segment must be kept as long as it may have their
    // lines.
    const now = Date.now();
    for (const requestId of requestIds) {
      if (!segment.uncommitted.has(requestId)) segment.uncommitted.set(requestId, now);
    }
    this.#withReserve(() => segment.write(lines));
    this.#syncSoon(segment);
    return segment;
  }

  /** Runs a write. If it fails, frees the reserved space and runs it again. */
  #withReserve(write: () => void): void {
    try {
      write();
    } catch (error) {
      if (!this.#reserve.spend()) throw error;
      write();
    }
  }

  /** Runs one sync at a time, each 50 ms after the previous one, until all segments are synced. */
  #syncSoon(segment?: Segment): void {
    if (segment) this.#unsynced.add(segment);
    if (this.#syncing || this.#waitForDisk) return;
    this.#syncing = true;
    setTimeout(() => {
      const [first] = this.#unsynced;
      const next = () => {
        this.#syncing = false;
        if (this.#unsynced.size > 0 && !this.#closed) this.#syncSoon();
      };
      if (first === undefined || this.#closed) return next();
      this.#unsynced.delete(first);
      this.#sync(first.file, next);
    }, syncMs);
  }

  /**
   * Writes late lines one at a time, so that some can be written even if there is little free
   * space.
   */
  #retryLate(): void {
    this.#retry = undefined;
    try {
      for (let late = this.#late[0]; late; late = this.#late[0]) {
        const segment = this.#write([late.entry.requestId], settledLine(late.entry));
        this.#late.shift();
        this.#syncLate(late, segment);
      }
    } catch {
      this.#scheduleRetry();
    }
  }

  #syncLate(late: LateEntry, segment: Segment): void {
    const { journalNumber } = late.entry;
    const onSynced = (error: unknown) => {
      if (!error) {
        late.resolve(true);
        return;
      }
      this.#late.push(late);
      this.#scheduleRetry();
    };
    const charges = journalNumber === undefined ? [] : [journalNumber];
    if (this.#waitForDisk) this.#syncAndRelease(segment, charges, onSynced);
    else onSynced(null);
  }

  /** Schedules the next try, and reports a failure to callers that have waited long enough. */
  #scheduleRetry(): void {
    const now = performance.now();
    const isExpired = ({ giveUpAt }: LateEntry) => giveUpAt <= now;
    const expired = this.#late.filter(isExpired);
    this.#late = this.#late.filter((late) => !isExpired(late));
    for (const { resolve } of expired) resolve(false);
    if (this.#late.length === 0 || this.#closed) return;
    this.#retry ??= setTimeout(() => this.#retryLate(), retryMs);
  }
}

const unwritable = "The journal can't be written.";

function rejected(message: string): Promise<never> {
  return Promise.reject(new Error(message));
}
