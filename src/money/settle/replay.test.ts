import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { journalLine } from '../../../tests/support/money/journal-line.ts';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import type { LedgerStore, ParsedBatch } from '../ledger.ts';
import { parseBatch, toSettlementEntry } from '../ledger.ts';
import { type JournalLine, settledLine } from './journal-files.ts';
import { LateReplay, replayJournals } from './replay.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-replay-'));
afterAll(() => rmSync(root, { recursive: true }));
beforeEach(() => {
  rmSync(root, { recursive: true });
  mkdirSync(root);
});

const caller = callerOf('ten_1');
/** No process ever has this number. */
const deadPid = 2 ** 30;

function storeThatNotes() {
  const batches: ParsedBatch[] = [];
  const expired: (string | undefined)[] = [];
  const never = () => Promise.reject(new Error('A replay does not do this.'));
  const store: LedgerStore = {
    lease: never,
    returnCredits: never,
    renew: never,
    recall: never,
    pendingRecalls: never,
    commitWithAnswers: never,
    expire: async (_now, dead) => void expired.push(dead),
    commit: async (batch) => {
      batches.push(parseBatch(batch));
      return [];
    },
  };
  return { store, batches, expired };
}

const textOf = (line: JournalLine) => journalLine(JSON.stringify(line));

function leave(name: string, ...segments: (JournalLine | string)[][]): string {
  const folder = join(root, name);
  mkdirSync(folder);
  segments.forEach((lines, number) => {
    const text = lines.map((line) => (typeof line === 'string' ? line : textOf(line))).join('');
    writeFileSync(join(folder, `0000000${number}.jsonl`), text);
  });
  return folder;
}

const folderOf = (pid: number, host = hostname()) => `${host}~${pid}~proc${pid}`;

function request() {
  const settlement = settlementOf(crypto.randomUUID(), caller, 7);
  const { requestId, tenantId, keyId, operation, requestedModel, streamed, createdAt } =
    settlement.record;
  const call = { requestId, tenantId, keyId, operation, requestedModel, streamed, createdAt };
  return {
    id: requestId,
    begun: { kind: 'dispatched', call } as const,
    ended: { kind: 'settled', settlement } as const,
  };
}

describe('a dead process’s journal', () => {
  test('is booked on its own leases, its leases are freed, and it is gone', async () => {
    const { store, batches, expired } = storeThatNotes();
    const one = request();
    const folder = leave(folderOf(deadPid), [one.begun, one.ended]);
    const damaged: string[] = [];
    const note = (where: string) => void damaged.push(where);
    expect(await replayJournals(root, store, Date.now(), note)).toBe(1);
    expect(damaged).toEqual([]);
    expect(batches).toMatchObject([
      { processId: `proc${deadPid}`, mayRepeat: true, settlements: [one.ended.settlement] },
    ]);
    expect(expired).toEqual([`proc${deadPid}`]);
    expect(existsSync(folder)).toBe(false);
  });

  test('what had begun and not ended is an error that costs nothing and says why', async () => {
    const { store, batches } = storeThatNotes();
    const [ended, open] = [request(), request()];
    leave(folderOf(deadPid), [ended.begun, open.begun], [ended.ended]);
    await replayJournals(root, store, Date.now());
    const [first, second] = batches[0]?.settlements ?? [];
    expect(first?.record.requestId).toBe(ended.id);
    expect(second).toMatchObject({
      keyAccount: null,
      keyCharge: 0,
      record: {
        requestId: open.id,
        status: 'error',
        charges: { modelCharge: 0 },
        note: 'The gateway stopped before this request ended.',
      },
    });
  });

  test('torn lines are left out, and those behind them are not', async () => {
    const { store, batches } = storeThatNotes();
    const [one, two, three] = [request(), request(), request()];
    const torn = textOf(two.ended).slice(0, 80);
    leave(folderOf(deadPid), [one.begun, one.ended, two.begun, `${torn}\n`, three.ended, torn]);
    await replayJournals(root, store, Date.now());
    const booked = batches.flatMap(({ settlements }) => settlements);
    expect(booked.map(({ record }) => [record.requestId, record.status])).toEqual([
      [one.id, 'success'],
      [three.id, 'success'],
      [two.id, 'error'],
    ]);
  });

  test('is reported when lines in it are damaged, and these are not charged', async () => {
    const { store, batches, expired } = storeThatNotes();
    const [one, two] = [request(), request()];
    const changed = settledLine(toSettlementEntry(two.ended.settlement)).replace(
      '"modelCharge":7',
      '"modelCharge":6',
    );
    const folder = leave(folderOf(deadPid), [one.ended, two.begun, changed]);
    const reported: [string, number][] = [];
    await replayJournals(root, store, Date.now(), (...damage) => void reported.push(damage));
    expect(reported).toEqual([[folder, 1]]);
    const booked = batches.flatMap(({ settlements }) => settlements);
    expect(booked.map(({ record }) => [record.requestId, record.charges.modelCharge])).toEqual([
      [one.id, 7],
      [two.id, 0],
    ]);
    expect(expired).toEqual([`proc${deadPid}`]);
    expect(existsSync(folder)).toBe(false);
  });

  test('is booked as it is read: a long one never is in memory as a whole', async () => {
    const { store, batches } = storeThatNotes();
    const first = Array.from({ length: 1_000 }, request);
    const [read, unread] = [request(), request()];
    const segments = [first.map(({ ended }) => ended), [unread.ended]];
    const folder = leave(folderOf(deadPid), ...segments);
    const changing: LedgerStore = {
      ...store,
      commit(batch) {
        // A replay that had read this file already would book its old line.
        if (existsSync(folder)) writeFileSync(join(folder, '00000001.jsonl'), textOf(read.ended));
        return store.commit(batch);
      },
    };
    expect(await replayJournals(root, changing, Date.now())).toBe(1_001);
    const booked = batches.flatMap(({ settlements }) => settlements);
    expect(booked.map(({ record }) => record.requestId)).toEqual([
      ...first.map(({ id }) => id),
      read.id,
    ]);
  });

  test('stays when it could not be booked', async () => {
    const { store } = storeThatNotes();
    const one = request();
    const folder = leave(folderOf(deadPid), [one.ended]);
    const away = { ...store, commit: () => Promise.reject(new Error('away')) };
    const failed = await replayJournals(root, away, Date.now()).catch((error) => String(error));
    expect(failed).toContain('away');
    expect(existsSync(folder)).toBe(true);
  });

  test('is read a segment at a time, with a pause for others', async () => {
    const { store } = storeThatNotes();
    const folder = leave(folderOf(deadPid), [request().ended], [request().ended]);
    const replayed = replayJournals(root, store, Date.now());
    rmSync(join(folder, '00000001.jsonl'));
    expect(await replayed).toBe(1);
  });

  test('comes in batches', async () => {
    const { store, batches } = storeThatNotes();
    const lines = Array.from({ length: 1_500 }, () => request().ended);
    leave(folderOf(deadPid), lines);
    expect(await replayJournals(root, store, Date.now())).toBe(1_500);
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([1_000, 500]);
  });
});

describe('whether the process of a journal is dead', () => {
  const replayed = async (name: string, silentMs = 0) => {
    const { store } = storeThatNotes();
    const folder = leave(name, [request().ended]);
    const touchedAt = (Date.now() - silentMs) / 1000;
    utimesSync(folder, touchedAt, touchedAt);
    return (await replayJournals(root, store, Date.now())) === 1;
  };

  test.each([
    ['a number that nobody has', folderOf(deadPid), 0, true],
    ['our own number: a predecessor had it', folderOf(process.pid), 0, true],
    ['a process that lives', folderOf(process.ppid), 0, false],
    ['a process that lives, silent by a clock set ahead', folderOf(process.ppid), 400_000, false],
    ['another host, heard of lately', folderOf(deadPid, 'elsewhere'), 200_000, false],
    ['another host, silent for long', folderOf(deadPid, 'elsewhere'), 400_000, true],
    ['no journal of ours', 'lost+found', 400_000, false],
  ])('%s', async (_, name, silentMs, isDead) => {
    expect(await replayed(name, silentMs)).toBe(isDead);
  });

  test('without any journal there is nothing to do', async () => {
    const { store } = storeThatNotes();
    expect(await replayJournals(join(root, 'none'), store, Date.now())).toBe(0);
  });

  test('a folder that cannot be read is an error, not an empty folder', async () => {
    const { store } = storeThatNotes();
    const file = join(root, 'file');
    writeFileSync(file, '');
    const look = replayJournals(join(file, 'journal'), store, Date.now());
    await expect(look).rejects.toMatchObject({ code: 'ENOTDIR' });
  });
});

describe('a process that is found dead later', () => {
  const folder = () => leave(folderOf(deadPid, 'elsewhere'), [request().ended]);

  /** How many requests each of so many looks has booked. */
  async function looks(count: number, between: (look: number) => void = () => undefined) {
    const { store } = storeThatNotes();
    const late = new LateReplay(root, store, 'mine');
    const booked: number[] = [];
    for (let look = 0; look < count; look += 1) {
      booked.push(await late.poll(Date.now()));
      between(look);
    }
    return booked;
  }

  test('is one whose journal nobody touched through five minutes of looking', async () => {
    const left = folder();
    expect(await looks(7)).toEqual([0, 0, 0, 0, 0, 1, 0]);
    expect(existsSync(left)).toBe(false);
  });

  test('is not one that was silent before we looked, and then touches its journal', async () => {
    const left = folder();
    utimesSync(left, 1, 1);
    expect(await looks(20, (look) => utimesSync(left, look + 2, look + 2))).toEqual(
      Array(20).fill(0),
    );
  });

  test('is also one whose number was given to a process that lives', async () => {
    leave(folderOf(1), [request().ended]);
    expect(await looks(6)).toEqual([0, 0, 0, 0, 0, 1]);
  });

  test('is never ourselves', async () => {
    leave(`${hostname()}~${process.pid}~mine`, [request().ended]);
    expect(await looks(20)).toEqual(Array(20).fill(0));
  });

  test('without any journal there is nothing to do', async () => {
    rmSync(root, { recursive: true });
    expect(await looks(2)).toEqual([0, 0]);
    mkdirSync(root);
  });
});
