import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { toSettlementEntry } from '../ledger.ts';
import { Journal } from './journal.ts';
import { readLines } from './journal-files.ts';

const all = mkdtempSync(join(tmpdir(), 'tollgate-late-ends-'));
afterAll(() => rmSync(all, { recursive: true }));
const endOf = (credits: number) => settlementOf(crypto.randomUUID(), callerOf('ten_1'), credits);

/** A journal in which nothing can be opened: a file stands where its folder should be. */
function openBlocked() {
  const root = mkdtempSync(join(all, 'journal-'));
  const journal = new Journal(root, 'p', 'journal');
  const folder = join(root, readdirSync(root)[0] ?? '');
  rmSync(folder, { recursive: true });
  writeFileSync(folder, '');
  const lines = () => [...readLines(readFileSync(join(folder, '00000000.jsonl'), 'utf8'))];
  return { journal, unblock: () => rmSync(folder), lines };
}

test('of ends that could not be written all are, in their order, when one can be', async () => {
  const { journal, unblock, lines } = openBlocked();
  const ends = [1, 2, 3].map(endOf);
  const written = ends.map((end) => journal.settledLate(toSettlementEntry(end), 60_000));
  unblock();
  expect(await Promise.all(written)).toEqual([true, true, true]);
  expect(lines()).toEqual(ends.map((settlement) => ({ kind: 'settled', settlement }) as const));
  journal.close();
});

test('an end that could not be written is tried again when others were given up', async () => {
  const { journal, unblock, lines } = openBlocked();
  const last = endOf(2);
  const givenUp = journal.settledLate(toSettlementEntry(endOf(1)), 0);
  const written = journal.settledLate(toSettlementEntry(last), 60_000);
  expect(await givenUp).toBe(false);
  unblock();
  expect(await written).toBe(true);
  expect(lines()).toEqual([{ kind: 'settled', settlement: last }]);
  journal.close();
});
