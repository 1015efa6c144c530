import { closeSync, fsyncSync, ftruncateSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** One file of the journal: whole lines, one after the other. */
export class Segment {
  readonly file: number;
  /** Requests whose dispatch or end stands here and is not in the books yet, and since when. */
  readonly open = new Map<string, number>();
  readonly #path: string;
  #bytes = 0;
  #torn = false;

  /** `lasting`: the file's name, too, survives a power cut. */
  constructor(path: string, lasting: boolean) {
    this.#path = path;
    this.file = openSync(path, 'a', 0o600);
    if (lasting) syncFolder(dirname(path));
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Writes all of it or throws. A full disk can take half a line: that half is taken back. */
  write(lines: string): void {
    // Where taking it back failed, a line break comes first: only the torn line is lost.
    const text = this.#torn ? `\n${lines}` : lines;
    const bytes = Buffer.byteLength(text);
    let written = 0;
    try {
      written = writeSync(this.file, text);
    } finally {
      if (written < bytes) this.#takeBack();
    }
    if (written < bytes) throw new Error('The disk took only a part of the line.');
    this.#bytes += written;
    this.#torn = false;
  }

  remove(): void {
    this.close();
    rmSync(this.#path, { force: true });
  }

  close(): void {
    closeSync(this.file);
  }

  #takeBack(): void {
    try {
      ftruncateSync(this.file, this.#bytes);
    } catch {
      this.#torn = true;
    }
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
