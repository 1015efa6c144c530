import { afterAll, beforeEach, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { claimJournals, journalFolderName, journalsBelongTo } from './journal-files.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-journal-folder-'));
const root = join(dataDir, 'journal');
afterAll(() => rmSync(dataDir, { recursive: true }));
beforeEach(() => rmSync(root, { recursive: true, force: true }));

function leaveJournal(): void {
  mkdirSync(join(root, journalFolderName('proc')), { recursive: true });
}

test('journals are for the books that were opened beside them first', () => {
  claimJournals(dataDir, 'ours');
  leaveJournal();
  claimJournals(dataDir, 'ours');
  expect(() => claimJournals(dataDir, 'theirs')).toThrow(`${root} has requests of another`);
  claimJournals(dataDir, 'ours');
});

test('where nothing was left behind, other books may follow', () => {
  claimJournals(dataDir, 'ours');
  claimJournals(dataDir, 'theirs');
  expect(readdirSync(root)).toEqual(['books']);
  leaveJournal();
  expect(() => claimJournals(dataDir, 'ours')).toThrow('another database');
});

test('a journal that nobody has named is taken for that of the books at hand', () => {
  leaveJournal();
  claimJournals(dataDir, 'ours');
  expect(() => claimJournals(dataDir, 'theirs')).toThrow('another database');
});

test('journals whose books cannot be read are not taken for nobody’s', () => {
  leaveJournal();
  expect(journalsBelongTo(dataDir, 'ours')).toBe(false);
  // A folder where the name should be.
  mkdirSync(join(root, 'books'));
  expect(() => journalsBelongTo(dataDir, 'ours')).toThrow(/EISDIR/);
  rmSync(join(root, 'books'), { recursive: true });
  claimJournals(dataDir, 'ours');
  expect(journalsBelongTo(dataDir, 'ours')).toBe(true);
});
