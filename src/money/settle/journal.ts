import { existsSync, fdatasync, mkdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { journalBytesMax } from '../../core/bounds.ts';
import type { SettlementEntry } from '../ledger.ts';
import {
  type DispatchedRequest,
  dispatchedLine,
  journalFolderName,
  Segment,
  settledLine,
} from './journal-files.ts';

/** A segment is closed at this size, so that drained ones can be removed. */
const segmentBytes = 4 * 1024 * 1024;
/** Once it is drained, the segment in use is removed too; below this size it is simply kept. */
const removableBytesMin = segmentBytes / 8;
/** With `journal` durability a power cut can lose this much; a process's death loses nothing. */
const syncMs = 50;
const retryMs = 250;

/** The lines of one turn of the event loop: written at once, and they succeed or fail together. */
class LineBatch {
  lines = '';
  readonly requestIds: string[] = [];
  /** The requests whose first line is among these. */
  readonly started: string[] = [];
  readonly written = Promise.withResolvers<void>();
  /** Settled once the write was tried: never rejects, and waits for no disk. */
  readonly tried = Promise.withResolvers<void>();
}

/** Bytes that a try for room writes: more than a line, since a disk gives room by pages. */
const probeBytes = 4096;

/** Makes the disk keep what was written to a file. */
type Sync = (file: number, done: (error: Error | null) => void) => void;

interface LateEntry {
  readonly entry: SettlementEntry;
  readonly resolve: (written: boolean) => void;
  readonly giveUpAt: number;
}

/**
 * Nothing finished is lost: one line when an upstream call starts, one when it ends, written to a
 * local file before the client sees the end. Lines of one turn of the event loop share one write.
 */
export class Journal {
  readonly #folder: string;
  readonly #waitForDisk: boolean;
  readonly #sync: Sync;
  readonly #segments: Segment[] = [];
  #count = 0;
  #started = 0;
  #batch: LineBatch | undefined;
  /** Ends of requests that could not be written yet; they are tried again for a while. */
  #late: LateEntry[] = [];
  #retry: ReturnType<typeof setTimeout> | undefined;
  #syncing = false;
  readonly #unsynced = new Set<Segment>();
  #closed = false;
  /** Somebody removed the folder. */
  #isFolderMissing = false;
  /** The last line could be written. */
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
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  get bytes(): number {
    let sum = 0;
    for (const segment of this.#segments) sum += segment.bytes;
    return sum;
  }

  /** How many requests this process has begun: their first lines are written. */
  get started(): number {
    return this.#started;
  }

  /** Age of the oldest line whose request is not in the books; 0 when all are. */
  ageMs(now: number): number {
    // Entries stand in the order in which they came, so the first of a segment is its oldest.
    const oldest = this.#segments.map(
      ({ uncommitted }) => uncommitted.values().next().value ?? now,
    );
    return Math.max(0, ...oldest.map((since) => now - since));
  }

  /** Tells other hosts on a shared disk that this journal's process lives. */
  async heartbeat(): Promise<void> {
    // Another process may have taken us for dead and booked what we had.
    this.#isFolderMissing = !existsSync(this.#folder);
    if (this.#isFolderMissing) return;
    const now = new Date();
    utimesSync(this.#folder, now, now);
  }

  /** Before an upstream is called. Rejects when nothing can be written: then nothing is sent. */
  dispatched(call: DispatchedRequest): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return rejected(refusal);
    const line = dispatchedLine(call);
    const batch = this.#currentBatch();
    batch.started.push(call.requestId);
    return this.#append(batch, call.requestId, line);
  }

  /**
   * Throws while nothing can begin. After a line that failed it tries by itself whether there is
   * room again: a load balancer that was told of it sends no request that would show it.
   */
  requireWritable(): void {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw new Error(refusal);
    if (!this.#isWritable) this.#probeDisk();
  }

  #refusal(): string | undefined {
    if (this.bytes > journalBytesMax) return 'The journal has reached its bound.';
    if (this.#late.length > 0) return unwritable;
    return this.#closed ? 'The journal is closed.' : undefined;
  }

  /** Writes where the next line will stand: a replay of this journal ignores empty lines. */
  #probeDisk(): void {
    try {
      this.#segment().write('\n'.repeat(probeBytes));
    } catch {
      // The asker may be a stranger: the journal's path and machine are for the log alone.
      throw new Error(unwritable);
    }
    this.#isWritable = true;
  }

  /** When a call ended. Rejects when that could not be written; `settledLate` goes on trying. */
  settled(entry: SettlementEntry): Promise<void> {
    if (this.#closed) return rejected('The journal is closed.');
    return this.#append(this.#currentBatch(), entry.requestId, settledLine(entry));
  }

  /**
   * When an answer that costs nothing ended: its row outlives the process as others do. But the
   * answer does not wait for the disk, and is not refused where nothing can be written.
   */
  settledFree(entry: SettlementEntry): Promise<void> | void {
    if (this.#refusal() !== undefined) return;
    const batch = this.#currentBatch();
    void this.#append(batch, entry.requestId, settledLine(entry)).catch(() => undefined);
    return batch.tried.promise;
  }

  /** Tries again and again. Answers whether the line could be written within this time. */
  settledLate(entry: SettlementEntry, waitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      this.#late.push({ entry, resolve, giveUpAt: performance.now() + waitMs });
      this.#retry ??= setTimeout(() => this.#retryLate(), retryMs);
    });
  }

  /** These are in the books: their lines are not needed any more. */
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

  /** Whatever is not in the books stays for the next start to find. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    const isCommitted = this.#segments.every((segment) => segment.uncommitted.size === 0);
    for (const segment of this.#segments.splice(0)) segment.close();
    if (isCommitted) rmSync(this.#folder, { recursive: true, force: true });
  }

  #segment(): Segment {
    const last = this.#segments.at(-1);
    // Nobody would find again what is written to a file whose folder is gone.
    if (last && last.bytes < segmentBytes && !this.#isFolderMissing) return last;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const path = join(this.#folder, `${String(this.#count++).padStart(8, '0')}.jsonl`);
    const segment = new Segment(path, this.#waitForDisk);
    this.#segments.push(segment);
    this.#isFolderMissing = false;
    return segment;
  }

  #remove(segment: Segment): void {
    this.#segments.splice(this.#segments.indexOf(segment), 1);
    this.#unsynced.delete(segment);
    try {
      segment.remove();
    } catch {
      // All lines in it are booked, so the next start recognises the ids of a file that stays. A
      // failure here must not keep callers from hearing that their charges were taken.
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
      const { file } = this.#write(batch.requestIds, batch.lines);
      if (this.#waitForDisk)
        this.#sync(file, (error) => (error ? this.#fail(batch, error) : this.#succeed(batch)));
      else this.#succeed(batch);
    } catch (error) {
      this.#fail(batch, error);
    }
    batch.tried.resolve();
  }

  #succeed(batch: LineBatch): void {
    this.#started += batch.started.length;
    this.#isWritable = true;
    batch.written.resolve();
  }

  /** Requests whose first line failed are not sent; ends that failed come again as late lines. */
  #fail(batch: LineBatch, reason: unknown): void {
    for (const { uncommitted } of this.#segments)
      for (const id of batch.started) uncommitted.delete(id);
    this.#isWritable = false;
    batch.written.reject(reason);
  }

  #write(requestIds: readonly string[], lines: string): Segment {
    const segment = this.#segment();
    // Noted before they are written: a segment must be kept while it holds any of these lines.
    const now = Date.now();
    for (const requestId of requestIds) {
      if (!segment.uncommitted.has(requestId)) segment.uncommitted.set(requestId, now);
    }
    segment.write(lines);
    this.#syncSoon(segment);
    return segment;
  }

  /** One sync at a time, each 50 ms after the last one ended, until all segments are synced. */
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

  /** One by one, so that little space is enough for some of them. */
  #retryLate(): void {
    this.#retry = undefined;
    try {
      for (let late = this.#late[0]; late; late = this.#late[0]) {
        const { file } = this.#write([late.entry.requestId], settledLine(late.entry));
        this.#late.shift();
        this.#syncLate(late, file);
      }
    } catch {
      this.#scheduleRetry();
    }
  }

  #syncLate(late: LateEntry, file: number): void {
    const onSynced = (error: Error | null) => {
      if (!error) {
        late.resolve(true);
        return;
      }
      this.#late.push(late);
      this.#scheduleRetry();
    };
    if (this.#waitForDisk) this.#sync(file, onSynced);
    else onSynced(null);
  }

  /** Callers that have waited long enough hear that the line could not be written. */
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

const unwritable = 'The journal cannot be written.';

function rejected(message: string): Promise<never> {
  return Promise.reject(new Error(message));
}
