import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { noUsage } from '../../core/usage.ts';
import { toSettlementEntry } from '../ledger.ts';
import { Journal } from './journal.ts';
import {
  type DispatchedRequest,
  dispatchedLine,
  journalFolderName,
  readFolderName,
  readLines,
  settledLine,
  unfinishedSettlement,
} from './journal-files.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-journal-'));
afterAll(() => rmSync(root, { recursive: true }));
const caller = callerOf('ten_1');
let count = 0;

function open(durability: 'journal' | 'fsync' = 'journal') {
  const place = join(root, String(++count));
  const journal = new Journal(place, `p${count}`, durability);
  const folder = join(place, readdirSync(place)[0] ?? '');
  const files = () => readdirSync(folder).toSorted();
  const lines = () =>
    files().flatMap((name) => [...readLines(readFileSync(join(folder, name), 'utf8'))]);
  return { journal, place, folder, files, lines };
}

function dispatched(requestId: string, requestedModel = 'test/chat'): DispatchedRequest {
  const { tenantId, keyId } = caller;
  const call = { requestId, tenantId, keyId, operation: 'chat', requestedModel } as const;
  return { ...call, streamed: false, createdAt: 1 };
}

const id = () => crypto.randomUUID();

describe('a journal', () => {
  test.each(['journal', 'fsync'] as const)('with %s: what it wrote can be read', async (how) => {
    const { journal, folder, lines } = open(how);
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
  });

  test.each(['journal', 'fsync'] as const)('with %s: keeps what costs nothing', async (how) => {
    const { journal, lines, files } = open(how);
    const settlement = settlementOf(id(), caller, 0, { cacheHit: true });
    await journal.settledFree(toSettlementEntry(settlement));
    expect(lines()).toEqual([{ kind: 'settled', settlement }]);
    expect(journal.started).toBe(0);
    journal.committed([settlement.record.requestId]);
    expect(journal.ageMs(Date.now() + 60_000)).toBe(0);
    expect(files()).toHaveLength(1);
    journal.close();
  });

  test('is as old as its oldest line that is not booked', async () => {
    const { journal } = open();
    expect(journal.ageMs(Date.now())).toBe(0);
    const [first, second] = [id(), id()];
    const begin = Date.now();
    await journal.dispatched(dispatched(first));
    const between = Date.now();
    while (Date.now() === between) await Bun.sleep(1);
    await journal.dispatched(dispatched(second));
    // The line of a request's end does not make the journal younger.
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

  test('writes the lines of one turn at once, in order', async () => {
    const { journal, lines } = open();
    const ids = Array.from({ length: 50 }, id);
    await Promise.all(ids.map((one) => journal.dispatched(dispatched(one))));
    const written = lines().map((line) => (line.kind === 'dispatched' ? line.call.requestId : ''));
    expect(written).toEqual(ids);
    journal.close();
  });

  test('starts a new file at four megabytes and drops those that are booked', async () => {
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

  test('keeps a file for an end whose beginning stands in another', async () => {
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

  test('when everything is booked, closing leaves nothing behind', async () => {
    const { journal, place } = open();
    const one = id();
    await journal.dispatched(dispatched(one));
    journal.committed([one]);
    journal.close();
    expect(readdirSync(place)).toEqual([]);
  });

  test('when something is not, closing leaves it for the next start', async () => {
    const { journal, lines } = open();
    await journal.dispatched(dispatched(id()));
    journal.close();
    expect(lines()).toHaveLength(1);
  });

  test('goes on when its folder was taken away', async () => {
    const { journal, folder, lines } = open();
    rmSync(folder, { recursive: true });
    await journal.dispatched(dispatched(id()));
    expect(lines()).toHaveLength(1);
    journal.close();
  });

  test('that cannot be written refuses beginnings and gives ends up', async () => {
    const { journal, folder } = open();
    rmSync(folder, { recursive: true });
    // A file where the folder should be: nothing can be opened in it.
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

  test('that could not be written finds out by itself that it can be again', async () => {
    const { journal, place, folder, files } = open();
    journal.requireWritable();
    rmSync(folder, { recursive: true });
    await Bun.write(folder, '');
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow();
    const refusal = await Promise.try(() => journal.requireWritable()).catch((error) => error);
    // Anybody may read this message: it does not say where the journal lies.
    expect([refusal.message, refusal.cause]).toEqual(['The journal cannot be written.', undefined]);
    rmSync(folder);
    journal.requireWritable();
    const said = files().map((name) => readFileSync(join(folder, name), 'utf8').trim());
    expect(said).toEqual(['']);
    journal.close();
    expect(readdirSync(place)).toEqual([]);
  });

  test('that was taken away, and then could not be written, can be found again', async () => {
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

  test('writes a late end as soon as it can, and begins nothing before', async () => {
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

  test('shows that it lives', async () => {
    const { journal, folder } = open();
    utimesSync(folder, 1, 1);
    // Some disks tell the time in whole seconds.
    const before = Date.now() - 1_000;
    await journal.heartbeat();
    expect(statSync(folder).mtimeMs).toBeWithin(before, Date.now() + 1);
    journal.close();
  });

  test('that was taken for a dead process’s begins again where it can be found', async () => {
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

  test('that is closed takes nothing more', async () => {
    const { journal, place } = open();
    journal.close();
    await expect(journal.dispatched(dispatched(id()))).rejects.toThrow('closed');
    const entry = toSettlementEntry(settlementOf(id(), caller, 0, { cacheHit: true }));
    await expect(journal.settled(entry)).rejects.toThrow('closed');
    await journal.settledFree(entry);
    expect(readdirSync(place)).toEqual([]);
  });
});

test('a call whose end nobody saw is an error that nobody pays for', () => {
  const call = dispatched(id());
  const { record, ...rest } = unfinishedSettlement(call);
  expect(rest).toEqual({ writtenOff: 0, keyAccount: null, keyCharge: 0 });
  expect(record).toEqual({
    ...call,
    model: null,
    provider: null,
    status: 'error',
    error: 'internal_error',
    trafficMode: 'shared',
    usage: noUsage,
    usageEstimated: false,
    charges: { modelCharge: 0, byokPlatformFee: 0, managedToolFee: 0, agentRuntimeFee: 0 },
    prices: null,
    searches: 0,
    skills: [],
    note: 'The gateway stopped before this request ended.',
    finishReason: null,
    cancelled: false,
    cacheHit: false,
    firstByteMs: null,
    durationMs: 0,
    endUser: null,
    attempts: [],
  });
});

test('a journal’s folder says whose it is; other names are no journal’s', () => {
  const owner = readFolderName(journalFolderName('p'));
  expect(owner).toMatchObject({ pid: process.pid, processId: 'p' });
  for (const name of ['books', 'host', '~1~p', 'host~~p', 'host~1~', 'host~1', 'host~1x~p']) {
    expect(readFolderName(name)).toBeUndefined();
  }
});

describe('reading lines', () => {
  test('leaves out torn ones, wherever they are, and those without a sum', () => {
    const call = dispatched(id());
    const line = dispatchedLine(call).trimEnd();
    const bare = JSON.stringify({ kind: 'dispatched', call });
    const text = `${line}\n${line.slice(0, 30)}\n\n${line}\n${bare}\n${line.slice(0, -1)}`;
    let damaged = 0;
    const read = [...readLines(text, () => void damaged++)];
    expect(read).toEqual([
      { kind: 'dispatched', call },
      { kind: 'dispatched', call },
    ]);
    expect(damaged).toBe(3);
  });

  test('leaves out what a disk has changed, whichever bit it was', () => {
    const settlement = settlementOf(id(), caller, 5, { durationMs: 40 });
    const whole = Buffer.from(settledLine(toSettlementEntry(settlement)));
    expect([...readLines(whole.toString())]).toEqual([{ kind: 'settled', settlement }]);
    for (let bit = 0; bit < whole.length * 8; bit += 1) {
      const bytes = Buffer.from(whole);
      bytes.writeUInt8(bytes.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      let damaged = 0;
      expect([...readLines(bytes.toString(), () => void damaged++)]).toEqual([]);
      expect(damaged).toBe(1);
    }
  });
});
