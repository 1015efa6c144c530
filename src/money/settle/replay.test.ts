import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { journalLine } from '../../../tests/support/money/journal-line.ts';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import type { LedgerStore, ParsedBatch } from '../ledger.ts';
import { parseBatch, toSettlementEntry } from '../ledger.ts';
import { Journal } from './journal.ts';
import { type JournalLine, settledLine } from './journal-files.ts';
import { deadJournals, LateReplay, replayJournals } from './replay.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-replay-'));
afterAll(() => rmSync(root, { recursive: true }));
beforeEach(() => {
  rmSync(root, { recursive: true });
  mkdirSync(root);
});

const caller = callerOf('ten_1');
/** No process has this PID. */
const deadPid = 2 ** 30;

function recordingStore() {
  const batches: ParsedBatch[] = [];
  const expired: (string | undefined)[] = [];
  const never = () => Promise.reject(new Error("A replay doesn't call this."));
  const store: LedgerStore = {
    lease: never,
    returnCredits: never,
    renew: never,
    recall: never,
    pendingRecalls: never,
    reportHolds: never,
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
    dispatched: { kind: 'dispatched', call } as const,
    settled: { kind: 'settled', settlement } as const,
  };
}

describe('replayJournals', () => {
  test('charges a journal to the leases of its process, frees them, and removes the journal', async () => {
    const { store, batches, expired } = recordingStore();
    const one = request();
    const folder = leave(folderOf(deadPid), [one.dispatched, one.settled]);
    const damaged: string[] = [];
    const onDamaged = (where: string) => void damaged.push(where);
    expect(await replayJournals(root, store, Date.now(), onDamaged)).toBe(1);
    expect(damaged).toEqual([]);
    expect(batches).toMatchObject([
      { processId: `proc${deadPid}`, mayRepeat: true, settlements: [one.settled.settlement] },
    ]);
    expect(expired).toEqual([`proc${deadPid}`]);
    expect(existsSync(folder)).toBe(false);
  });

  test('commits unfinished requests as free errors with a note', async () => {
    const { store, batches } = recordingStore();
    const [settled, open] = [request(), request()];
    leave(folderOf(deadPid), [settled.dispatched, open.dispatched], [settled.settled]);
    await replayJournals(root, store, Date.now());
    const [first, second] = batches[0]?.settlements ?? [];
    expect(first?.record.requestId).toBe(settled.id);
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

  test('skips torn lines, but not those after them', async () => {
    const { store, batches } = recordingStore();
    const [one, two, three] = [request(), request(), request()];
    const torn = textOf(two.settled).slice(0, 80);
    leave(folderOf(deadPid), [
      one.dispatched,
      one.settled,
      two.dispatched,
      `${torn}\n`,
      three.settled,
      torn,
    ]);
    await replayJournals(root, store, Date.now());
    const booked = batches.flatMap(({ settlements }) => settlements);
    expect(booked.map(({ record }) => [record.requestId, record.status])).toEqual([
      [one.id, 'success'],
      [three.id, 'success'],
      [two.id, 'error'],
    ]);
  });

  test('reports damaged lines and does not charge for them', async () => {
    const { store, batches, expired } = recordingStore();
    const [one, two] = [request(), request()];
    const changed = settledLine(toSettlementEntry(two.settled.settlement)).replace(
      '"modelCharge":7',
      '"modelCharge":6',
    );
    const folder = leave(folderOf(deadPid), [one.settled, two.dispatched, changed]);
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

  test('commits while reading, so that a long journal is never completely in memory', async () => {
    const { store, batches } = recordingStore();
    const first = Array.from({ length: 1_000 }, request);
    const [read, unread] = [request(), request()];
    const segments = [first.map(({ settled }) => settled), [unread.settled]];
    const folder = leave(folderOf(deadPid), ...segments);
    const changing: LedgerStore = {
      ...store,
      commit(batch) {
        // A replay that had already read this file would commit its old line.
        if (existsSync(folder)) writeFileSync(join(folder, '00000001.jsonl'), textOf(read.settled));
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

  test('keeps a journal that could not be committed', async () => {
    const { store } = recordingStore();
    const one = request();
    const folder = leave(folderOf(deadPid), [one.settled]);
    const unavailable = { ...store, commit: () => Promise.reject(new Error('unavailable')) };
    const failed = await replayJournals(root, unavailable, Date.now()).catch((error) =>
      String(error),
    );
    expect(failed).toContain('unavailable');
    expect(existsSync(folder)).toBe(true);
  });

  test('yields to the event loop after each segment', async () => {
    const { store } = recordingStore();
    const segments = Array.from({ length: 5 }, () => [request().dispatched]);
    leave(folderOf(deadPid), ...segments);
    let turns = 0;
    const count = () => {
      turns += 1;
      next = setImmediate(count);
    };
    let next = setImmediate(count);
    onTestFinished(() => clearImmediate(next));
    await replayJournals(root, store, Date.now());
    // This store answers in microtasks, so only the replay itself can let other tasks run.
    expect(turns).toBeGreaterThanOrEqual(segments.length);
  });

  test('commits in batches, in order, and waits for each commit', async () => {
    const { store, batches } = recordingStore();
    const requests = Array.from({ length: 2_500 }, request);
    leave(
      folderOf(deadPid),
      requests.map(({ settled }) => settled),
    );
    let running = 0;
    const slow: LedgerStore = {
      ...store,
      async commit(batch) {
        running += 1;
        expect(running).toBe(1);
        await Bun.sleep(5);
        running -= 1;
        return store.commit(batch);
      },
    };
    expect(await replayJournals(root, slow, Date.now())).toBe(2_500);
    expect(batches.map(({ settlements }) => settlements.length)).toEqual([1_000, 1_000, 500]);
    const booked = batches.flatMap(({ settlements }) => settlements);
    expect(booked.map(({ record }) => record.requestId)).toEqual(requests.map(({ id }) => id));
  });
});

describe('replayJournals', () => {
  const replayed = async (name: string, silentMs = 0) => {
    const { store } = recordingStore();
    const folder = leave(name, [request().settled]);
    const touchedAt = (Date.now() - silentMs) / 1000;
    utimesSync(folder, touchedAt, touchedAt);
    return (await replayJournals(root, store, Date.now())) === 1;
  };

  test.each([
    ['a PID that no process has', folderOf(deadPid), 0, true],
    ['a predecessor with our own PID', folderOf(process.pid), 0, true],
    ['a live process', folderOf(process.ppid), 0, false],
    ['a live process without a heartbeat', folderOf(process.ppid), 400_000, false],
    ['another host with a recent heartbeat', folderOf(deadPid, 'elsewhere'), 200_000, false],
    ['another host without a heartbeat', folderOf(deadPid, 'elsewhere'), 400_000, true],
    ['a folder with another name', 'lost+found', 400_000, false],
  ])('decides whether to replay the journal of %s', async (_, name, silentMs, isDead) => {
    expect(await replayed(name, silentMs)).toBe(isDead);
  });

  test('does not replay a live process with the same host name and PID', async () => {
    const { store } = recordingStore();
    const { settled } = request();
    const journal = new Journal(root, 'live', 'journal');
    await journal.settled(toSettlementEntry(settled.settlement));
    expect(await replayJournals(root, store, Date.now())).toBe(0);
    journal.close();
    expect(await replayJournals(root, store, Date.now())).toBe(1);
    expect(readdirSync(root)).toEqual([]);
  });

  test('does not replay a suspended process, but replays it once it was killed', async () => {
    const { store } = recordingStore();
    const script = `
      const { Journal } = await import(${JSON.stringify(join(import.meta.dir, 'journal.ts'))});
      const journal = new Journal(${JSON.stringify(root)}, 'other', 'journal');
      await journal.settled({ requestId: 'r', text: '{}' });
      console.log('written');
      setInterval(() => journal, 1000);`;
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' });
    onTestFinished(() => child.kill('SIGKILL'));
    await child.stdout.getReader().read();
    child.kill('SIGSTOP');
    // This process seems to be dead: its heartbeat is old, and in a container, its PID is ours.
    const [name = ''] = readdirSync(root);
    const container = name.replace(`~${child.pid}~`, `~${process.pid}~`);
    renameSync(join(root, name), join(root, container));
    utimesSync(join(root, container), 1, 1);
    const late = new LateReplay(root, store, 'mine');
    for (let poll = 0; poll < 7; poll += 1) expect(await late.poll(Date.now())).toBe(0);
    expect(await replayJournals(root, store, Date.now())).toBe(0);
    expect(deadJournals(root, Date.now())).toEqual([]);
    child.kill('SIGKILL');
    await child.exited;
    expect(deadJournals(root, Date.now())).toEqual([container]);
    expect(readdirSync(join(root, container))).toContain('00000000.jsonl');
  });

  test('returns 0 without a journal folder', async () => {
    const { store } = recordingStore();
    expect(await replayJournals(join(root, 'none'), store, Date.now())).toBe(0);
  });

  test('rejects if the folder cannot be read', async () => {
    const { store } = recordingStore();
    const file = join(root, 'file');
    writeFileSync(file, '');
    const poll = replayJournals(join(file, 'journal'), store, Date.now());
    await expect(poll).rejects.toMatchObject({ code: 'ENOTDIR' });
  });
});

describe('LateReplay', () => {
  const folder = () => leave(folderOf(deadPid, 'elsewhere'), [request().settled]);

  /** Returns the number of requests that each poll has replayed. */
  async function pollTimes(count: number, between: (poll: number) => void = () => undefined) {
    const { store } = recordingStore();
    const late = new LateReplay(root, store, 'mine');
    const booked: number[] = [];
    for (let poll = 0; poll < count; poll += 1) {
      booked.push(await late.poll(Date.now()));
      between(poll);
    }
    return booked;
  }

  test('replays a journal that got no heartbeat during 5 minutes of polls', async () => {
    const left = folder();
    expect(await pollTimes(7)).toEqual([0, 0, 0, 0, 0, 1, 0]);
    expect(existsSync(left)).toBe(false);
  });

  test('does not replay an old journal that gets heartbeats again', async () => {
    const left = folder();
    utimesSync(left, 1, 1);
    expect(await pollTimes(20, (poll) => utimesSync(left, poll + 2, poll + 2))).toEqual(
      Array(20).fill(0),
    );
  });

  test('replays the journal of a dead process on this host in the first poll', async () => {
    const journal = new Journal(root, 'dead', 'journal');
    await journal.settled(toSettlementEntry(request().settled.settlement));
    journal.close();
    expect(await pollTimes(2)).toEqual([1, 0]);
  });

  test('replays a silent journal whose PID is used by a live process', async () => {
    leave(folderOf(1), [request().settled]);
    expect(await pollTimes(6)).toEqual([0, 0, 0, 0, 0, 1]);
  });

  test('never replays its own journal', async () => {
    leave(`${hostname()}~${process.pid}~mine`, [request().settled]);
    expect(await pollTimes(20)).toEqual(Array(20).fill(0));
  });

  test('returns 0 without a journal folder', async () => {
    rmSync(root, { recursive: true });
    expect(await pollTimes(2)).toEqual([0, 0]);
    mkdirSync(root);
  });
});
