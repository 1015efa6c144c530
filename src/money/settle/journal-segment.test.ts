import { afterAll, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Segment } from './journal-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-segment-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('a segment', () => {
  test('holds its lines, counts their bytes and goes when it is told to', () => {
    const path = join(folder, 'a.jsonl');
    const segment = new Segment(path, true);
    segment.write('{"é":1}\n');
    segment.write('{"b":2}\n');
    expect(readFileSync(path, 'utf8')).toBe('{"é":1}\n{"b":2}\n');
    expect(segment.bytes).toBe(17);
    segment.remove();
    expect(existsSync(path)).toBe(false);
    // Its file is let go as well: a process can have only so many.
    expect(() => segment.write('{"c":3}\n')).toThrow(/EBADF/);
  });

  test('a full disk is an error, and no bytes are counted', () => {
    const segment = new Segment('/dev/full', false);
    expect(() => segment.write('{"a":1}\n')).toThrow(/ENOSPC/);
    expect(segment.bytes).toBe(0);
    segment.close();
  });

  test('removing one that somebody else removed is no error', () => {
    const path = join(folder, 'b.jsonl');
    const segment = new Segment(path, false);
    rmSync(path);
    segment.remove();
    expect(existsSync(path)).toBe(false);
  });
});
