import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callerOf, settlementOf } from '../../tests/support/money/settlements.ts';
import { Journal } from './journal.ts';
import { readLines } from './journal-lines.ts';
import { slipOf } from './slip.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-late-ends-'));
afterAll(() => rmSync(root, { recursive: true }));

test('of ends that could not be written all are, in their order, when one can be', async () => {
  const journal = new Journal(root, 'p', 'journal');
  const folder = join(root, readdirSync(root)[0] ?? '');
  rmSync(folder, { recursive: true });
  // A file where the folder should be: nothing can be opened in it.
  writeFileSync(folder, '');
  const ends = [1, 2, 3].map((credits) =>
    settlementOf(crypto.randomUUID(), callerOf('ten_1'), credits),
  );
  const written = ends.map((end) => journal.settledLate(slipOf(end), 60_000));
  rmSync(folder);
  expect(await Promise.all(written)).toEqual([true, true, true]);
  const text = readFileSync(join(folder, '00000000.jsonl'), 'utf8');
  expect([...readLines(text)]).toEqual(
    ends.map((settlement) => ({ kind: 'settled', settlement }) as const),
  );
  journal.close();
});
