import { existsSync, fdatasync, mkdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { journalBytesMax } from '../core/bounds.ts';
import {
  type Dispatched,
  dispatchedLine,
  journalFolderName,
  settledLine,
} from './journal-lines.ts';
import { Segment } from './segment.ts';
import type { Slip } from './slip.ts';

/** A segment is closed at this size, so that drained ones can be removed. */
const segmentBytes = 4 * 1024 * 1024;
/** Once it is drained, the segment in use is removed too; below this size it is simply kept. */
const removableBytesMin = segmentBytes / 8;
/** With `journal` durability a power cut can lose this much; a process's death loses nothing. */
const syncMs = 50;
const retryMs = 250;

/** The lines of one turn of the event loop: written at once, and they succeed or fail together. */
class TurnLines {
  lines = '';
  readonly requestIds: string[] = [];
  /** The requests whose first line is among these. */
  readonly begun: string[] = [];
  readonly written = Promise.withResolvers<void>();
  /** Settled once the write was tried: never rejects, and waits for no disk. */
  readonly tried = Promise.withResolvers<void>();
}

/** Bytes that a try for room writes: more than a line, since a disk gives room by pages. */
const tryBytes = 4096;

/** Makes the disk keep what was written to a file. */
type Sync = (file: number, done: (error: Error | null) => void) => void;

interface LateSlip {
  readonly slip: Slip;
  readonly answer: (written: boolean) => void;
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
  #begun = 0;
  #turn: TurnLines | undefined;
  /** Ends of requests that could not be written yet; they are tried again for a while. */
  #late: LateSlip[] = [];
  #retry: ReturnType<typeof setTimeout> | undefined;
  #syncing = false;
  readonly #unsynced = new Set<Segment>();
  #closed = false;
  /** Somebody removed the folder. */
  #isGone = false;
  /** The last line could be written. */
  #hasRoom = true;

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
  get begun(): number {
    return this.#begun;
  }

  /** Age of the oldest line whose request is not in the books; 0 when all are. */
  ageMs(now: number): number {
    // Entries stand in the order in which they came, so the first of a segment is its oldest.
    const oldest = this.#segments.map(({ open }) => open.values().next().value ?? now);
    return Math.max(0, ...oldest.map((since) => now - since));
  }

  /** Tells other hosts on a shared disk that this journal's process lives. */
  async beat(): Promise<void> {
    // Another process may have taken us for dead and booked what we had.
    this.#isGone = !existsSync(this.#folder);
    if (this.#isGone) return;
    const now = new Date();
    utimesSync(this.#folder, now, now);
  }

  /** Before an upstream is called. Rejects when nothing can be written: then nothing is sent. */
  dispatched(call: Dispatched): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return refused(refusal);
    const line = dispatchedLine(call);
    const turn = this.#thisTurn();
    turn.begun.push(call.requestId);
    return this.#append(turn, call.requestId, line);
  }

  /**
   * Throws while nothing can begin. After a line that failed it tries by itself whether there is
   * room again: a load balancer that was told of it sends no request that would show it.
   */
  requireRoom(): void {
    const refusal = this.#refusal();
    if (refusal !== undefined) throw new Error(refusal);
    if (!this.#hasRoom) this.#tryRoom();
  }

  #refusal(): string | undefined {
    if (this.bytes > journalBytesMax) return 'The journal has reached its bound.';
    if (this.#late.length > 0) return unwritable;
    return this.#closed ? 'The journal is closed.' : undefined;
  }

  /** Writes where the next line will stand: a replay of this journal ignores empty lines. */
  #tryRoom(): void {
    try {
      this.#segment().write('\n'.repeat(tryBytes));
    } catch {
      // The asker may be a stranger: the journal's path and machine are for the log alone.
      throw new Error(unwritable);
    }
    this.#hasRoom = true;
  }

  /** When a call ended. Rejects when that could not be written; `settledLate` goes on trying. */
  settled(slip: Slip): Promise<void> {
    if (this.#closed) return refused('The journal is closed.');
    return this.#append(this.#thisTurn(), slip.requestId, settledLine(slip));
  }

  /**
   * When an answer that costs nothing ended: its row outlives the process as others do. But the
   * answer does not wait for the disk, and is not refused where nothing can be written.
   */
  settledFree(slip: Slip): Promise<void> | void {
    if (this.#refusal() !== undefined) return;
    const turn = this.#thisTurn();
    void this.#append(turn, slip.requestId, settledLine(slip)).catch(() => undefined);
    return turn.tried.promise;
  }

  /** Tries again and again. Answers whether the line could be written within this time. */
  settledLate(slip: Slip, waitMs: number): Promise<boolean> {
    return new Promise((answer) => {
      this.#late.push({ slip, answer, giveUpAt: performance.now() + waitMs });
      this.#retry ??= setTimeout(() => this.#tryAgain(), retryMs);
    });
  }

  /** These are in the books: their lines are not needed any more. */
  drained(requestIds: readonly string[]): void {
    for (const segment of this.#segments) for (const id of requestIds) segment.open.delete(id);
    const current = this.#segments.at(-1);
    for (const segment of this.#segments.slice(0, -1)) {
      if (segment.open.size === 0) this.#remove(segment);
    }
    if (current && current.open.size === 0 && current.bytes > removableBytesMin)
      this.#remove(current);
  }

  /** Whatever is not in the books stays for the next start to find. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    const isDrained = this.#segments.every((segment) => segment.open.size === 0);
    for (const segment of this.#segments.splice(0)) segment.close();
    if (isDrained) rmSync(this.#folder, { recursive: true, force: true });
  }

  #segment(): Segment {
    const last = this.#segments.at(-1);
    // Nobody would find again what is written to a file whose folder is gone.
    if (last && last.bytes < segmentBytes && !this.#isGone) return last;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const path = join(this.#folder, `${String(this.#count++).padStart(8, '0')}.jsonl`);
    const segment = new Segment(path, this.#waitForDisk);
    this.#segments.push(segment);
    this.#isGone = false;
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

  #thisTurn(): TurnLines {
    if (this.#turn) return this.#turn;
    const turn = new TurnLines();
    this.#turn = turn;
    setImmediate(() => this.#flush(turn));
    return turn;
  }

  #append(turn: TurnLines, requestId: string, line: string): Promise<void> {
    turn.requestIds.push(requestId);
    turn.lines += line;
    return turn.written.promise;
  }

  #flush(turn: TurnLines): void {
    this.#turn = undefined;
    try {
      const { file } = this.#write(turn.requestIds, turn.lines);
      if (this.#waitForDisk)
        this.#sync(file, (error) => (error ? this.#fail(turn, error) : this.#succeed(turn)));
      else this.#succeed(turn);
    } catch (thrown) {
      this.#fail(turn, thrown);
    }
    turn.tried.resolve();
  }

  #succeed(turn: TurnLines): void {
    this.#begun += turn.begun.length;
    this.#hasRoom = true;
    turn.written.resolve();
  }

  /** Requests whose first line failed are not sent; ends that failed come again as late lines. */
  #fail(turn: TurnLines, reason: unknown): void {
    for (const { open } of this.#segments) for (const id of turn.begun) open.delete(id);
    this.#hasRoom = false;
    turn.written.reject(reason);
  }

  #write(requestIds: readonly string[], lines: string): Segment {
    const segment = this.#segment();
    // Noted before they are written: a segment must be kept while it holds any of these lines.
    const now = Date.now();
    for (const requestId of requestIds) {
      if (!segment.open.has(requestId)) segment.open.set(requestId, now);
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
  #tryAgain(): void {
    this.#retry = undefined;
    try {
      for (let late = this.#late[0]; late; late = this.#late[0]) {
        const { file } = this.#write([late.slip.requestId], settledLine(late.slip));
        this.#late.shift();
        this.#keepLate(late, file);
      }
    } catch {
      this.#tryLater();
    }
  }

  #keepLate(late: LateSlip, file: number): void {
    const end = (error: Error | null) => {
      if (!error) {
        late.answer(true);
        return;
      }
      this.#late.push(late);
      this.#tryLater();
    };
    if (this.#waitForDisk) this.#sync(file, end);
    else end(null);
  }

  /** Callers that have waited long enough hear that the line could not be written. */
  #tryLater(): void {
    const now = performance.now();
    const isOver = ({ giveUpAt }: LateSlip) => giveUpAt <= now;
    const over = this.#late.filter(isOver);
    this.#late = this.#late.filter((late) => !isOver(late));
    for (const { answer } of over) answer(false);
    if (this.#late.length === 0 || this.#closed) return;
    this.#retry ??= setTimeout(() => this.#tryAgain(), retryMs);
  }
}

const unwritable = 'The journal cannot be written.';

function refused(message: string): Promise<never> {
  return Promise.reject(new Error(message));
}
