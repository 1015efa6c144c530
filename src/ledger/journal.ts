import { closeSync, fdatasync, mkdirSync, openSync, rmSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { journalBytesMax } from '../core/bounds.ts';
import { type Dispatched, journalFolderName, writeLine } from './journal-lines.ts';
import type { Settlement } from './ledger-store.ts';

/** A segment is closed at this size, so that drained ones can be removed. */
const segmentBytes = 4 * 1024 * 1024;
/** With `journal` durability a power cut can lose this much; a process's death loses nothing. */
const syncMs = 50;
const retryMs = 250;

interface Segment {
  readonly path: string;
  readonly file: number;
  bytes: number;
  /** Requests whose dispatch or end stands here and is not in the books yet. */
  readonly open: Set<string>;
}

/**
 * Nothing finished is lost: one line when an upstream call starts, one when it ends, written to a
 * local file before the client sees the end. Lines of one turn of the event loop share one write.
 */
export class Journal {
  readonly #folder: string;
  readonly #waitForDisk: boolean;
  readonly #segments: Segment[] = [];
  #count = 0;
  #lines = '';
  #writing: PromiseWithResolvers<void> | undefined;
  /** Ends of requests that could not be written yet; they are tried again until they are. */
  #unwritten: { line: string; done: () => void }[] = [];
  #retry: ReturnType<typeof setTimeout> | undefined;
  #syncing = false;
  #unsynced = false;
  #closed = false;

  constructor(root: string, processId: string, durability: 'journal' | 'fsync') {
    this.#folder = join(root, journalFolderName(processId));
    this.#waitForDisk = durability === 'fsync';
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
  }

  get bytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
  }

  /** Before an upstream is called. Rejects when nothing can be written: then nothing is sent. */
  async dispatched(call: Dispatched): Promise<void> {
    if (this.bytes > journalBytesMax) throw new Error('The journal has reached its bound.');
    if (this.#unwritten.length > 0) throw new Error('The journal cannot be written.');
    this.#segment().open.add(call.requestId);
    await this.#append(writeLine({ kind: 'dispatched', call }));
  }

  /** When a call ended. Resolves once the line is written, however long the disk takes. */
  async settled(settlement: Settlement): Promise<void> {
    const line = writeLine({ kind: 'settled', settlement });
    this.#segment().open.add(settlement.record.requestId);
    try {
      await this.#append(line);
    } catch {
      await new Promise<void>((done) => {
        this.#unwritten.push({ line, done });
        this.#retry ??= setTimeout(() => this.#tryAgain(), retryMs);
      });
    }
  }

  /** These are in the books: their lines are not needed any more. */
  drained(requestIds: readonly string[]): void {
    for (const segment of this.#segments) for (const id of requestIds) segment.open.delete(id);
    const current = this.#segments.at(-1);
    for (const segment of this.#segments.slice(0, -1)) {
      if (segment.open.size === 0) this.#remove(segment);
    }
    if (current && current.open.size === 0 && current.bytes > segmentBytes / 8)
      this.#remove(current);
  }

  /** Everything is drained: the files go. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    for (const segment of [...this.#segments]) this.#remove(segment);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #segment(): Segment {
    const last = this.#segments.at(-1);
    if (last && last.bytes < segmentBytes) return last;
    const path = join(this.#folder, `${String(this.#count++).padStart(8, '0')}.jsonl`);
    const segment = { path, file: openSync(path, 'a', 0o600), bytes: 0, open: new Set<string>() };
    this.#segments.push(segment);
    return segment;
  }

  #remove(segment: Segment): void {
    this.#segments.splice(this.#segments.indexOf(segment), 1);
    closeSync(segment.file);
    unlinkSync(segment.path);
  }

  #append(line: string): Promise<void> {
    this.#lines += line;
    if (!this.#writing) {
      this.#writing = Promise.withResolvers();
      setImmediate(() => this.#flush());
    }
    return this.#writing.promise;
  }

  #flush(): void {
    const writing = this.#writing;
    const lines = this.#lines;
    this.#writing = undefined;
    this.#lines = '';
    if (!writing) return;
    try {
      const segment = this.#segment();
      write(segment, lines);
      if (this.#waitForDisk)
        fdatasync(segment.file, (error) => (error ? writing.reject(error) : writing.resolve()));
      else writing.resolve();
    } catch (thrown) {
      writing.reject(thrown);
      return;
    }
    this.#syncSoon();
  }

  /** A loop of its own pace: never more than one sync under way, never more than 50 ms behind. */
  #syncSoon(): void {
    this.#unsynced = true;
    if (this.#syncing || this.#waitForDisk) return;
    this.#syncing = true;
    setTimeout(() => {
      const file = this.#segments.at(-1)?.file;
      this.#unsynced = false;
      const next = () => {
        this.#syncing = false;
        if (this.#unsynced && !this.#closed) this.#syncSoon();
      };
      if (file === undefined) next();
      else fdatasync(file, next);
    }, syncMs);
  }

  #tryAgain(): void {
    this.#retry = undefined;
    const waiting = this.#unwritten;
    try {
      write(this.#segment(), waiting.map(({ line }) => line).join(''));
    } catch {
      this.#retry = setTimeout(() => this.#tryAgain(), retryMs);
      return;
    }
    this.#unwritten = [];
    for (const { done } of waiting) done();
  }
}

/** A full disk can take half a line. The next line starts fresh, so only the torn one is lost. */
function write(segment: Segment, lines: string): void {
  const bytes = Buffer.from(lines);
  const written = writeSync(segment.file, bytes);
  segment.bytes += written;
  if (written === bytes.length) return;
  writeSync(segment.file, '\n');
  throw new Error('The disk took only a part of the line.');
}
