import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { noUsage } from '../../core/usage.ts';
import { type Settlement, toSettlementEntry } from '../ledger.ts';
import { noCharges } from '../price/fee-kinds.ts';
import {
  claimJournals,
  type DispatchedRequest,
  dispatchedLine,
  journalFailure,
  journalFolderName,
  journalsBelongTo,
  readFolderName,
  readLines,
  Segment,
  settledLine,
  unfinishedSettlement,
} from './journal-files.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-journal-folder-'));
const root = join(dataDir, 'journal');
const segmentFolder = join(dataDir, 'segments');
mkdirSync(segmentFolder);
afterAll(() => rmSync(dataDir, { recursive: true }));
beforeEach(() => rmSync(root, { recursive: true, force: true }));

function leaveJournal(): void {
  mkdirSync(join(root, journalFolderName('proc')), { recursive: true });
}

test('claimJournals records the first ledger as owner and rejects others', () => {
  claimJournals(dataDir, 'ours');
  leaveJournal();
  claimJournals(dataDir, 'ours');
  expect(() => claimJournals(dataDir, 'theirs')).toThrow(`${root} contains requests from another`);
  claimJournals(dataDir, 'ours');
});

test('claimJournals keeps its folder and file private', () => {
  claimJournals(dataDir, 'ours');
  const modes = [root, join(root, 'ledger-id')].map((path) => statSync(path).mode & 0o777);
  expect(modes).toEqual([0o700, 0o600]);
});

test('claimJournals accepts another ledger if no journals are left', () => {
  claimJournals(dataDir, 'ours');
  claimJournals(dataDir, 'theirs');
  expect(readdirSync(root)).toEqual(['ledger-id']);
  leaveJournal();
  expect(() => claimJournals(dataDir, 'ours')).toThrow('another database');
});

test('claimJournals claims journals without an owner', () => {
  leaveJournal();
  claimJournals(dataDir, 'ours');
  expect(() => claimJournals(dataDir, 'theirs')).toThrow('another database');
});

test('journalsBelongTo throws if the owner cannot be read', () => {
  leaveJournal();
  expect(journalsBelongTo(dataDir, 'ours')).toBe(false);
  // A folder in place of the owner file.
  mkdirSync(join(root, 'ledger-id'));
  expect(() => journalsBelongTo(dataDir, 'ours')).toThrow(/EISDIR/);
  rmSync(join(root, 'ledger-id'), { recursive: true });
  claimJournals(dataDir, 'ours');
  expect(journalsBelongTo(dataDir, 'ours')).toBe(true);
});

test.each([
  ['EACCES', ' Make the user that runs Tollgate the owner of its folder.'],
  ['EPERM', ' Make the user that runs Tollgate the owner of its folder.'],
  ['ENOSPC', ' Its disk is full, so free some space.'],
  ['EIO', ''],
])('journalFailure explains %s with the advice "%s"', (code, advice) => {
  const cause = Object.assign(new Error(code), { code, syscall: 'open', path: '/data/journal' });
  expect(journalFailure(cause)).toMatchObject({
    message: `The journal /data/journal can't be used (${code}).${advice}`,
    status: 503,
    cause,
  });
});

test('journalFailure returns errors without a path unchanged', () => {
  const other = Object.assign(new Error('reset'), { code: 'ECONNRESET', syscall: 'read' });
  expect(journalFailure(other)).toBe(other);
});

const caller = callerOf('ten_1');

function dispatched(): DispatchedRequest {
  const { tenantId, keyId } = caller;
  const requestId = crypto.randomUUID();
  const call = { requestId, tenantId, keyId, operation: 'chat', requestedModel: 'test/chat' };
  return { ...call, operation: 'chat', streamed: false, createdAt: 1 };
}

describe('Segment', () => {
  test('writes lines, counts their bytes, and can be removed', () => {
    const path = join(segmentFolder, 'a.jsonl');
    const segment = new Segment(path, true);
    segment.write('{"é":1}\n');
    segment.write('{"b":2}\n');
    expect(readFileSync(path, 'utf8')).toBe('{"é":1}\n{"b":2}\n');
    expect(segment.bytes).toBe(17);
    segment.remove();
    expect(existsSync(path)).toBe(false);
    // Its file is closed too.
    expect(() => segment.write('{"c":3}\n')).toThrow(/EBADF/);
  });

  test('throws on a full disk and counts no bytes', () => {
    const segment = new Segment('/dev/full', false);
    expect(() => segment.write('{"a":1}\n')).toThrow(/ENOSPC/);
    expect(segment.bytes).toBe(0);
    segment.close();
  });

  test('can be removed if its file is missing', () => {
    const path = join(segmentFolder, 'b.jsonl');
    const segment = new Segment(path, false);
    rmSync(path);
    segment.remove();
    expect(existsSync(path)).toBe(false);
  });
});

test('unfinishedSettlement returns a free settlement with an error', () => {
  const call = dispatched();
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
    charges: noCharges,
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

test('readFolderName reads the owner of a journal and rejects other names', () => {
  const owner = readFolderName(journalFolderName('p'));
  expect(owner).toMatchObject({ pid: process.pid, processId: 'p' });
  for (const name of ['books', 'host', '~1~p', 'host~~p', 'host~1~', 'host~1', 'host~1x~p']) {
    expect(readFolderName(name)).toBeUndefined();
  }
});

describe('readLines', () => {
  test('skips torn lines and lines without a checksum', () => {
    const call = dispatched();
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

  test('fills in fee kinds that are newer than the journal', () => {
    const settlement = settlementOf(crypto.randomUUID(), caller, 5, { durationMs: 40 });
    const { agentRuntimeFee: _, ...charges } = settlement.record.charges;
    const older = { ...settlement, record: { ...settlement.record, charges } } as Settlement;
    const [line] = readLines(settledLine(toSettlementEntry(older)));
    expect(line).toEqual({ kind: 'settled', settlement });
  });

  test('skips a line with any flipped bit', () => {
    const settlement = settlementOf(crypto.randomUUID(), caller, 5, { durationMs: 40 });
    const original = Buffer.from(settledLine(toSettlementEntry(settlement)));
    expect([...readLines(original.toString())]).toEqual([{ kind: 'settled', settlement }]);
    for (let bit = 0; bit < original.length * 8; bit += 1) {
      const bytes = Buffer.from(original);
      bytes.writeUInt8(bytes.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      let damaged = 0;
      expect([...readLines(bytes.toString(), () => void damaged++)]).toEqual([]);
      expect(damaged).toBe(1);
    }
  });
});
