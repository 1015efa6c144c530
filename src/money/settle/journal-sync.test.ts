import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { toSettlementEntry } from '../ledger.ts';
import { Journal } from './journal.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-journal-sync-'));
afterAll(() => rmSync(root, { recursive: true }));
const caller = callerOf('ten_1');
let count = 0;
/** Within this time a journal that did not wait for the disk would have asked it again. */
const twoTurnsMs = 110;

/** A journal on a disk that keeps nothing until it is told to. */
function open(durability: 'journal' | 'fsync') {
  const asked: { file: number; done: (error: Error | null) => void }[] = [];
  let wake = () => {};
  const sync = (file: number, done: (error: Error | null) => void) => {
    asked.push({ file, done });
    wake();
  };
  const journal = new Journal(join(root, String(++count)), 'p', durability, sync);
  /** The next file that the disk is asked to keep. */
  const next = async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    wake = resolve;
    if (asked.length === 0) await promise;
    const first = asked.shift();
    if (!first) throw new Error('Nothing was asked.');
    return first;
  };
  return { journal, next, asked };
}

const end = (requestedModel = 'test/chat') =>
  toSettlementEntry(settlementOf(crypto.randomUUID(), caller, 5, { requestedModel }));
const begin = () => settlementOf(crypto.randomUUID(), caller, 0).record;

test('with fsync a line is written when the disk has it, and not when it refuses', async () => {
  const { journal, next, asked } = open('fsync');
  let isSaid = false;
  const written = journal.dispatched(begin()).then(() => {
    isSaid = true;
  });
  const first = await next();
  await Bun.sleep(0);
  expect([isSaid, journal.started]).toEqual([false, 0]);
  first.done(null);
  await written;
  expect(journal.started).toBe(1);
  const refused = journal.settled(end()).catch(String);
  (await next()).done(new Error('EIO'));
  expect(await refused).toContain('EIO');
  // Each line once: the disk is not asked again behind its back.
  await Bun.sleep(twoTurnsMs);
  expect(asked).toEqual([]);
  journal.close();
});

test('with fsync a late line is written when the disk has it, too, or is tried again', async () => {
  const { journal, next } = open('fsync');
  let isSaid = false;
  const written = journal.settledLate(end(), 60_000).finally(() => {
    isSaid = true;
  });
  (await next()).done(new Error('EIO'));
  const again = await next();
  await Bun.sleep(0);
  expect(isSaid).toBe(false);
  again.done(null);
  expect(await written).toBe(true);
  // The disk may refuse for longer than anybody waits.
  const lost = journal.settledLate(end(), 0);
  (await next()).done(new Error('EIO'));
  expect(await lost).toBe(false);
  journal.close();
});

test('with journal nobody waits for the disk, which is asked for one file at a time', async () => {
  const { journal, next, asked } = open('journal');
  // So long that the next line begins another file.
  await journal.settled(end('m'.repeat(5 * 1024 * 1024)));
  await journal.settled(end());
  const first = await next();
  await Bun.sleep(twoTurnsMs);
  expect(asked).toEqual([]);
  first.done(null);
  const second = await next();
  expect(second.file).not.toBe(first.file);
  // What comes while the disk is busy is kept after that.
  await journal.settled(end());
  second.done(null);
  const third = await next();
  expect(third.file).toBe(second.file);
  third.done(null);
  // And so is what comes when all was kept.
  await Bun.sleep(0);
  await journal.settled(end());
  expect((await next()).file).toBe(second.file);
  journal.close();
});
