import { Database } from 'bun:sqlite';
import { afterAll, describe, expect, spyOn, test } from 'bun:test';
import * as fs from 'node:fs';
import {
  fstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { toSettlementEntry } from '../ledger.ts';
import { Journal } from './journal.ts';
import { type DispatchedRequest, readFolderName, readLines, Segment } from './journal-files.ts';
import { JournalLock } from './journal-lock.ts';
import { JournalReserve, reserveBytes } from './journal-reserve.ts';
import { releasedAnswers } from './released-answers.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-journal-'));
afterAll(() => rmSync(root, { recursive: true }));
const caller = callerOf('ten_1');
let count = 0;

function open(durability: 'journal' | 'fsync' = 'journal') {
  const parent = join(root, String(++count));
  const journal = new Journal(parent, `p${count}`, durability);
  const folder = join(parent, readdirSync(parent)[0] ?? '');
  const files = () =>
    readdirSync(folder)
      .toSorted()
      .filter((name) => name.endsWith('.jsonl'));
  const lines = () =>
    files().flatMap((name) => [...readLines(readFileSync(join(folder, name), 'utf8'))]);
  return { journal, parent, folder, files, lines };
}

function dispatched(requestId: string, requestedModel = 'test/chat'): DispatchedRequest {
  const { tenantId, keyId } = caller;
  const call = { requestId, tenantId, keyId, operation: 'chat', requestedModel } as const;
  return { ...call, streamed: false, createdAt: 1 };
}

const id = () => crypto.randomUUID();

describe('Journal', () => {
  test.each(['journal', 'fsync'] as const)(
    'writes readable lines with durability %s',
    async (durability) => {
      const { journal, folder, lines } = open(durability);
      expect(journal.bytes).toBe(0);
      const one = id();
      const settlement = settlementOf(one, caller, 5);
      await journal.dispatched(dispatched(one));
      await journal.settled(toSettlementEntry(settlement));
      expect(lines()).toEqual([
        { kind: 'dispatched', call: dispatched(one) },
        { kind: 'settled', settlement },
      ]);
      expect(journal.started).toBe(1);
      expect(journal.bytes).toBe(statSync(join(folder, '00000000.jsonl')).size);
      journal.close();
    },
  );

  test.each(['journal', 'fsync'] as const)(
    'writes free answers with durability %s',
    async (durability) => {
      const { journal, lines, files } = open(durability);
      const settlement = settlementOf(id(), caller, 0, { cacheHit: true });
      await journal.settledFree(toSettlementEntry(settlement));
      expect(lines()).toEqual([{ kind: 'settled', settlement }]);
      expect(journal.started).toBe(0);
      journal.committed([settlement.record.requestId]);
      expect(journal.ageMs(Date.now() + 60_000)).toBe(0);
      expect(files()).toHaveLength(1);
      journal.close();
    },
  );

  test('reports the age of the oldest line that is not committed', async () => {
    const { journal } = open();
    expect(journal.ageMs(Date.now())).toBe(0);
    const [first, second] = [id(), id()];
    const begin = Date.now();
    await journal.dispatched(dispatched(first));
    const between = Date.now();
    await waitUntil(() => Date.now() !== between);
    await journal.dispatched(dispatched(second));
    // The `settled` line of the same request doesn't change the age.
    await journal.settled(toSettlementEntry(settlementOf(first, caller, 5)));
    const later = Date.now() + 60_000;
    expect(journal.ageMs(later)).toBeGreaterThanOrEqual(later - between);
    expect(journal.ageMs(later)).toBeLessThanOrEqual(later - begin);
    journal.committed([first]);
    expect(journal.ageMs(later)).toBeLessThan(later - between);
    journal.committed([second]);
    expect(journal.ageMs(later)).toBe(0);
    journal.close();
  });

  test('writes the lines of one event-loop turn together, in order', async () => {
    const { journal, lines } = open();
    const ids = Array.from({ length: 50 }, id);
    await Promise.all(ids.map((one) => journal.dispatched(dispatched(one))));
    const written = lines().map((line) => (line.kind === 'dispatched' ? line.call.requestId : ''));
    expect(written).toEqual(ids);
    journal.close();
  });

  test('starts a new segment at 4 MB and removes committed ones', async () => {
    const { journal, files } = open();
    const long = 'm'.repeat(1024 * 1024);
    const ids = Array.from({ length: 6 }, id);
    for (const one of ids) await journal.dispatched(dispatched(one, long));
    expect(files()).toEqual(['00000000.jsonl', '00000001.jsonl']);
    journal.committed(ids.slice(0, 3));
    expect(files()).toHaveLength(2);
    journal.committed(ids.slice(3, 4));
    expect(files()).toEqual(['00000001.jsonl']);
    journal.committed(ids.slice(4));
    expect(files()).toEqual([]);
    journal.close();
  });

  test('keeps a segment for a settled line whose dispatched line is in another', async () => {
    const { journal, files } = open();
    const long = 'm'.repeat(5 * 1024 * 1024);
    const [first, second] = [id(), id()];
    await journal.dispatched(dispatched(first, long));
    await journal.settled(toSettlementEntry(settlementOf(first, caller, 1)));
    await journal.dispatched(dispatched(second, long));
    journal.committed([second]);
    expect(files()).toEqual(['00000000.jsonl', '00000001.jsonl']);
    journal.committed([first]);
    expect(files()).toEqual([]);
    journal.close();
  });

  test('removes its folder when closed after everything was committed', async () => {
    const { journal, parent } = open();
    const one = id();
    await journal.dispatched(dispatched(one));
    journal.committed([one]);
    journal.close();
    expect(readdirSync(parent)).toEqual([]);
  });

  test('keeps uncommitted lines when closed', async () => {
    const { journal, lines } = open();
    await journal.dispatched(dispatched(id()));
    journal.close();
    expect(lines()).toHaveLength(1);
  });

  test('continues after its folder was removed', async () => {
    const { journal, folder, lines } = open();
    rmSync(folder, { recursive: true });
    await journal.dispatched(dispatched(id()));
    expect(lines()).toHaveLength(1);
    journal.close();
  });

  test('rejects dispatched and settled lines while it cannot be written', async () => {
    const { journal, folder } = open();
    rmSync(folder, { recursive: true });
    // A file in place of the folder, so that no segment can be opened.
    await Bun.write(folder, '');
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow();
    const entry = toSettlementEntry(settlementOf(id(), caller, 1));
    await expect(journal.settled(entry)).rejects.toThrow();
    expect(await journal.settledLate(entry, 1)).toBe(false);
    expect(journal.started).toBe(0);
    rmSync(folder);
    await journal.dispatched(dispatched(id()));
    journal.close();
  });

  test('detects by itself that it can be written again', async () => {
    const { journal, parent, folder, files } = open();
    journal.requireWritable();
    rmSync(folder, { recursive: true });
    await Bun.write(folder, '');
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow();
    const error = await Promise.try(() => journal.requireWritable()).catch((cause) => cause);
    // The message is public, so it doesn't contain the journal's path.
    expect([error.message, error.cause]).toEqual(["The journal can't be written.", undefined]);
    rmSync(folder);
    journal.requireWritable();
    const contents = files().map((name) => readFileSync(join(folder, name), 'utf8').trim());
    expect(contents).toEqual(['']);
    journal.close();
    expect(readdirSync(parent)).toEqual([]);
  });

  test('starts a new segment after its folder was removed and could not be written', async () => {
    const { journal, folder, lines } = open();
    await journal.dispatched(dispatched(id()));
    rmSync(folder, { recursive: true });
    await journal.heartbeat();
    await Bun.write(folder, '');
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow();
    rmSync(folder);
    journal.requireWritable();
    await journal.heartbeat();
    const next = dispatched(id());
    await journal.dispatched(next);
    expect(lines()).toEqual([{ kind: 'dispatched', call: next }]);
    journal.close();
  });

  test('writes a late line as soon as it can, and rejects requests until then', async () => {
    const { journal, folder, lines } = open();
    rmSync(folder, { recursive: true });
    await Bun.write(folder, '');
    const late = settlementOf(id(), caller, 1);
    await expect(journal.settled(toSettlementEntry(late))).rejects.toThrow();
    const written = journal.settledLate(toSettlementEntry(late), 60_000);
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow();
    rmSync(folder);
    expect(await written).toBe(true);
    expect(lines()).toEqual([{ kind: 'settled', settlement: late }]);
    journal.close();
  });

  test('touches its folder with a heartbeat', async () => {
    const { journal, folder } = open();
    utimesSync(folder, 1, 1);
    // Some file systems store times in whole seconds.
    const before = Date.now() - 1_000;
    await journal.heartbeat();
    expect(statSync(folder).mtimeMs).toBeWithin(before, Date.now() + 1);
    journal.close();
  });

  test('rejects a second owner of the same journal', () => {
    const { journal, parent, folder } = open();
    expect(() => new Journal(parent, `p${count}`, 'journal')).toThrow(
      `The journal ${folder} belongs to another process that is still running. Stop that process.`,
    );
    journal.close();
    new Journal(parent, `p${count}`, 'journal').close();
    expect(readdirSync(parent)).toEqual([]);
  });

  test('is locked before its folder gets its name', () => {
    const rename = fs.renameSync;
    using renamed = spyOn(fs, 'renameSync').mockImplementation((from, to) => {
      expect(readFolderName(basename(String(from)))).toBeUndefined();
      expect(JournalLock.tryOpen(String(from))).toBeUndefined();
      rename(from, to);
    });
    const { journal } = open();
    expect(renamed).toHaveBeenCalledTimes(1);
    journal.close();
  });

  test('requires file locks of the file system', () => {
    const busy = Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
    using _ = spyOn(Database.prototype, 'run').mockImplementation(() => {
      throw busy;
    });
    expect(() => open()).toThrow('(ENOLCK)');
  });

  test('locks its folder again after the folder was removed', async () => {
    const { journal, parent, folder, lines } = open();
    await journal.dispatched(dispatched(id()));
    rmSync(folder, { recursive: true });
    const next = dispatched(id());
    await journal.dispatched(next);
    expect(lines()).toEqual([{ kind: 'dispatched', call: next }]);
    expect(statSync(join(folder, 'reserve')).size).toBe(reserveBytes);
    expect(() => new Journal(parent, `p${count}`, 'journal')).toThrow('belongs to another process');
    journal.close();
  });

  test('locks its folder again with a heartbeat after the lock file was removed', async () => {
    const { journal, parent, folder } = open();
    rmSync(join(folder, 'lock'));
    await journal.heartbeat();
    expect(() => new Journal(parent, `p${count}`, 'journal')).toThrow('belongs to another process');
    journal.close();
  });

  test('keeps its folder and files private', async () => {
    const { journal, parent, folder } = open();
    await journal.dispatched(dispatched(id()));
    const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
    expect([parent, folder].map(modeOf)).toEqual(['700', '700']);
    const files = readdirSync(folder).toSorted();
    expect(files.map((name) => [name, modeOf(join(folder, name))])).toEqual([
      ['00000000.jsonl', '600'],
      ['lock', '600'],
      ['reserve', '600'],
    ]);
    journal.close();
  });

  test('starts a new segment after another process replayed and removed the journal', async () => {
    const { journal, folder, lines } = open();
    await journal.dispatched(dispatched(id()));
    rmSync(folder, { recursive: true });
    await journal.heartbeat();
    const next = dispatched(id());
    await journal.dispatched(next);
    await journal.heartbeat();
    expect(lines()).toEqual([{ kind: 'dispatched', call: next }]);
    journal.close();
  });

  test('writes nothing after it was closed', async () => {
    const { journal, parent } = open();
    journal.close();
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow('closed');
    const entry = toSettlementEntry(settlementOf(id(), caller, 0, { cacheHit: true }));
    await expect(journal.settled(entry)).rejects.toThrow('closed');
    await journal.settledFree(entry);
    expect(readdirSync(parent)).toEqual([]);
  });
});

describe('Journal.settledLate', () => {
  const endOf = (credits: number) => settlementOf(crypto.randomUUID(), callerOf('ten_1'), credits);

  /** A journal with a file in place of its folder, so that no segment can be opened. */
  function openBlocked() {
    const parent = mkdtempSync(join(root, 'blocked-'));
    const journal = new Journal(parent, 'p', 'journal');
    const folder = join(parent, readdirSync(parent)[0] ?? '');
    rmSync(folder, { recursive: true });
    writeFileSync(folder, '');
    const lines = () => [...readLines(readFileSync(join(folder, '00000000.jsonl'), 'utf8'))];
    return { journal, unblock: () => rmSync(folder), lines };
  }

  test('writes all late lines in order once it can', async () => {
    const { journal, unblock, lines } = openBlocked();
    const ends = [1, 2, 3].map(endOf);
    const written = ends.map((end) => journal.settledLate(toSettlementEntry(end), 60_000));
    unblock();
    expect(await Promise.all(written)).toEqual([true, true, true]);
    expect(lines()).toEqual(ends.map((settlement) => ({ kind: 'settled', settlement }) as const));
    journal.close();
  });

  test('keeps retrying a line after others timed out', async () => {
    const { journal, unblock, lines } = openBlocked();
    const last = endOf(2);
    const timedOut = journal.settledLate(toSettlementEntry(endOf(1)), 0);
    const written = journal.settledLate(toSettlementEntry(last), 60_000);
    expect(await timedOut).toBe(false);
    unblock();
    expect(await written).toBe(true);
    expect(lines()).toEqual([{ kind: 'settled', settlement: last }]);
    journal.close();
  });
});

describe('Journal syncs', () => {
  /** Longer than two sync intervals. */
  const twoTurnsMs = 110;

  /** A journal on a disk whose syncs end when the test ends them. */
  function openOnDisk(durability: 'journal' | 'fsync') {
    const syncs: { file: number; done: (error: Error | null) => void }[] = [];
    let wake = () => {};
    const sync = (file: number, done: (error: Error | null) => void) => {
      syncs.push({ file, done });
      wake();
    };
    const parent = join(root, String(++count));
    const journal = new Journal(parent, 'p', durability, sync);
    const folder = join(parent, readdirSync(parent)[0] ?? '');
    const released = () => releasedAnswers(folder)?.toString();
    /** Returns the next sync. */
    const next = async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      if (syncs.length === 0) await promise;
      const first = syncs.shift();
      if (!first) throw new Error('No sync has started.');
      return first;
    };
    return { journal, next, syncs, released };
  }

  const end = (requestedModel = 'test/chat', journalNumber = 0) => {
    const settlement = settlementOf(crypto.randomUUID(), caller, 5, { requestedModel });
    return toSettlementEntry({ ...settlement, journalNumber });
  };
  const begin = () => settlementOf(crypto.randomUUID(), caller, 0).record;

  test('complete a line with durability fsync, or fail it', async () => {
    const { journal, next, syncs, released } = openOnDisk('fsync');
    let isResolved = false;
    const written = journal.dispatched(begin()).then(() => {
      isResolved = true;
    });
    const first = await next();
    await Bun.sleep(0);
    expect([isResolved, journal.started]).toEqual([false, 0]);
    first.done(null);
    await written;
    expect(journal.started).toBe(1);
    const rejected = journal.settled(end()).catch(String);
    (await next()).done(new Error('EIO'));
    expect(await rejected).toContain('EIO');
    expect(released()).toBe('');
    // No background sync follows.
    await Bun.sleep(twoTurnsMs);
    expect(syncs).toEqual([]);
    journal.close();
  });

  test('complete a late line with durability fsync, or retry it', async () => {
    const { journal, next, released } = openOnDisk('fsync');
    let isResolved = false;
    const written = journal.settledLate(end(), 60_000).finally(() => {
      isResolved = true;
    });
    (await next()).done(new Error('EIO'));
    const again = await next();
    await Bun.sleep(0);
    expect([isResolved, released()]).toEqual([false, '']);
    again.done(null);
    expect(await written).toBe(true);
    expect(released()).toBe('0');
    // The sync fails for longer than the caller waits.
    const lost = journal.settledLate(end(), 0);
    (await next()).done(new Error('EIO'));
    expect(await lost).toBe(false);
    journal.close();
  });

  test.each(['fsync', 'journal'] as const)(
    'include the folders of a new journal and of a new segment with durability %s',
    async (durability) => {
      const synced: number[] = [];
      using _ = spyOn(fs, 'fsyncSync').mockImplementation((file) => {
        synced.push(fstatSync(file).ino);
      });
      const { journal, parent, folder } = open(durability);
      await journal.dispatched(dispatched(id()));
      await journal.dispatched(dispatched(id()));
      const folders = durability === 'fsync' ? [root, parent, folder] : [];
      expect(synced).toEqual(folders.map((path) => statSync(path).ino));
      journal.close();
    },
  );

  test('run in the background with durability journal, one segment at a time', async () => {
    const { journal, next, syncs } = openOnDisk('journal');
    // So long that the next line starts another segment.
    await journal.settled(end('m'.repeat(5 * 1024 * 1024)));
    await journal.settled(end());
    const first = await next();
    await Bun.sleep(twoTurnsMs);
    expect(syncs).toEqual([]);
    first.done(null);
    const second = await next();
    expect(second.file).not.toBe(first.file);
    // A line written during a sync is synced afterwards.
    await journal.settled(end());
    second.done(null);
    const third = await next();
    expect(third.file).toBe(second.file);
    third.done(null);
    // A line written after all syncs is synced too.
    await Bun.sleep(0);
    await journal.settled(end());
    expect((await next()).file).toBe(second.file);
    journal.close();
  });
});

describe('JournalReserve', () => {
  test('frees its space once and allocates it again a second later', () => {
    const folder = mkdtempSync(join(root, 'reserve-'));
    const file = join(folder, 'reserve');
    const reserve = new JournalReserve(folder);
    expect(statSync(file).size).toBe(reserveBytes);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect([reserve.restore(0), reserve.spend(0), reserve.spend(1)]).toEqual([true, true, false]);
    expect(readdirSync(folder)).toEqual([]);
    expect([reserve.restore(999), readdirSync(folder)]).toEqual([false, []]);
    expect([reserve.restore(1_000), statSync(file).size]).toEqual([true, reserveBytes]);
  });

  test('stays spent while there is no space', () => {
    const reserve = new JournalReserve(join(root, 'no such folder'));
    expect([reserve.spend(0), reserve.restore(5_000)]).toEqual([false, false]);
  });

  test('lets an answer end with durability fsync if the disk is full after its charge', async () => {
    const { journal, folder } = open('fsync');
    const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    using _ = spyOn(fs, 'appendFileSync').mockImplementationOnce(() => {
      throw full;
    });
    const settlement = settlementOf(id(), caller, 5);
    await journal.settled(toSettlementEntry({ ...settlement, journalNumber: 0 }));
    expect(readdirSync(folder)).not.toContain('reserve');
    expect(readFileSync(join(folder, '00000000.jsonl.released'), 'utf8')).toBe('\n0;');
    journal.close();
  });

  test('lets running requests be charged on a full disk, while new ones are rejected', async () => {
    const { journal, folder, lines } = open();
    const [running, late] = [id(), id()];
    await journal.dispatched(dispatched(running));
    await journal.dispatched(dispatched(late));
    const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    using write = spyOn(Segment.prototype, 'write').mockImplementationOnce(() => {
      throw full;
    });
    await journal.settled(toSettlementEntry(settlementOf(running, caller, 5)));
    expect(write).toHaveBeenCalledTimes(2);
    expect(readdirSync(folder)).not.toContain('reserve');
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow('be written');
    expect(() => journal.requireWritable()).toThrow('be written');
    await journal.settled(toSettlementEntry(settlementOf(late, caller, 7)));
    expect(lines().filter(({ kind }) => kind === 'settled')).toHaveLength(2);
    journal.close();
  });
});
