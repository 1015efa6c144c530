import { describe, expect, onTestFinished, test } from 'bun:test';
import { appendFileSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LedgerStore, Settlement } from '../ledger.ts';
import { parseBatch } from '../ledger.ts';
import { totalCharge } from '../price/fee-kinds.ts';
import { recordBootId, recordReleased, releasedAnswers } from './released-answers.ts';
import { replayJournals } from './replay.ts';

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-released-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

const script = join(import.meta.dir, '../../../tests/support/money/killed-journal.ts');

/** Returns the journals of a process that was killed before the end of its second answer. */
async function killedProcess(): Promise<string> {
  const root = newFolder();
  const child = Bun.spawn([process.execPath, script, root], { stdout: 'pipe', stderr: 'inherit' });
  const { value } = await child.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toBe('written\n');
  child.kill('SIGKILL');
  await child.exited;
  return root;
}

async function replay(root: string): Promise<readonly Settlement[]> {
  const settlements: Settlement[] = [];
  const never = () => Promise.reject(new Error("A replay doesn't call this."));
  const store: LedgerStore = {
    lease: never,
    returnCredits: never,
    renew: never,
    reportHolds: never,
    recall: never,
    pendingRecalls: never,
    commitWithAnswers: never,
    expire: async () => undefined,
    commit: async (batch) => {
      settlements.push(...parseBatch(batch).settlements);
      return [];
    },
  };
  await replayJournals(root, store, Date.now());
  return settlements;
}

const chargesOf = (settlements: readonly Settlement[]) =>
  settlements.map(({ record }) => [totalCharge(record.charges), record.note]);

const folderIn = (root: string) => join(root, readdirSync(root)[0] ?? '');

describe('a journal with durability fsync', () => {
  test('charges a killed process only for answers that it let end', async () => {
    const settlements = await replay(await killedProcess());
    expect(chargesOf(settlements)).toEqual([
      [7, null],
      [0, 'The gateway stopped before it sent the end of this answer. Nothing is charged.'],
    ]);
    expect(settlements[1]).toMatchObject({ record: { status: 'error', error: 'internal_error' } });
  });

  test('charges all answers on disk after a power failure', async () => {
    const root = await killedProcess();
    writeFileSync(join(folderIn(root), 'boot-id'), 'another boot');
    expect(chargesOf(await replay(root))).toEqual([
      [7, null],
      [8, null],
    ]);
  });

  test('keeps its files private', async () => {
    const folder = folderIn(await killedProcess());
    const modes = readdirSync(folder)
      .toSorted()
      .map((name) => [name, (statSync(join(folder, name)).mode & 0o777).toString(8)]);
    expect(modes).toEqual([
      ['00000000.jsonl', '600'],
      ['00000000.jsonl.released', '600'],
      ['boot-id', '600'],
      ['lock', '600'],
      ['reserve', '600'],
    ]);
  });
});

describe('releasedAnswers', () => {
  test('ignores lines of which only a part was written', () => {
    const folder = newFolder();
    recordBootId(folder);
    const segment = join(folder, '00000000.jsonl');
    recordReleased(segment, [3, 5]);
    appendFileSync(`${segment}.released`, '\n7,1');
    recordReleased(segment, [4]);
    appendFileSync(`${segment}.released`, '\n2');
    expect(releasedAnswers(folder)?.toString()).toBe('3-5');
  });
});
