import { afterAll, afterEach, beforeEach, describe, expect, mock, spyOn, test } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { journalLine } from '../../tests/support/money/journal-line.ts';
import { callerOf, settlementOf } from '../../tests/support/money/settlements.ts';
import { within } from '../../tests/support/wait-until.ts';
import { GatewayError } from '../core/errors.ts';
import type { IdempotentAnswer, Recording } from '../core/recording.ts';
import type { EndedRequest } from '../telemetry/ended-request.ts';
import { createLog } from '../telemetry/log.ts';
import { Accounting } from './accounting.ts';
import type { Batch, Booked, LedgerStore, Settlement } from './ledger.ts';
import { ClaimsInUse, parseBatch } from './ledger.ts';
import { noCharges } from './price/fee-kinds.ts';
import { Journal } from './settle/journal.ts';
import { type JournalLine, readLines } from './settle/journal-files.ts';

const root = mkdtempSync(join(tmpdir(), 'tollgate-accounting-'));
afterAll(() => rmSync(root, { recursive: true }));

/** The shared clock is 1 minute ahead of this process's. */
const now = () => Date.now() + 60_000;
const caller = callerOf('ten_1');
const receivedAt = Date.now();
const settlementWith = (charge: number) => settlementOf(crypto.randomUUID(), caller, charge);
const rejection = async (call: () => unknown) => {
  try {
    await call();
  } catch (error) {
    if (error instanceof GatewayError) return error.message;
  }
  throw new Error('The call was not rejected.');
};

/** Flushes after the store is back. A try that started while it was down may still fail. */
const flushed = () => accounting.flush().catch(() => accounting.flush());

const idOf = (line: JournalLine) =>
  line.kind === 'settled' ? line.settlement.record.requestId : line.call.requestId;

let accounting: Accounting;
let journal = '';
let isStoreDown = true;
let isTakenOver = false;
let booked: readonly Booked[] = [];
let beforeCommit: (batch: Batch) => Promise<void>;
let committed: Settlement[] = [];
let leasedAt = 0;
let storingAnswers: (answers: readonly IdempotentAnswer[]) => Promise<void>;
let endedRequests: EndedRequest[] = [];
let logged: string[] = [];

/** Accounting on a store that grants every lease, but is down otherwise. */
beforeEach(async () => {
  const dataDir = mkdtempSync(join(root, 'data-'));
  isStoreDown = true;
  isTakenOver = false;
  booked = [];
  beforeCommit = async () => undefined;
  committed = [];
  storingAnswers = async () => undefined;
  endedRequests = [];
  logged = [];
  const ifUp = async <T>(answer: T): Promise<T> => {
    if (isStoreDown) throw new Error('unavailable');
    return answer;
  };
  const store: LedgerStore = {
    lease: async ({ credits, number, now }) => {
      leasedAt = now;
      return {
        granted: credits,
        lease: number,
        outsideLease: 0,
        leasedElsewhere: 0,
        unanswered: 0,
        unansweredUntil: null,
      };
    },
    returnCredits: async () => ifUp(undefined),
    renew: () => ifUp(new Set(['tenant:ten_1'])),
    expire: () => ifUp(undefined),
    recall: () => ifUp(1),
    pendingRecalls: () => ifUp([]),
    reportHolds: () => ifUp(undefined),
    commit: async (batch) => {
      const answer = await ifUp(booked);
      await beforeCommit(batch);
      committed.push(...parseBatch(batch).settlements);
      return answer;
    },
    commitWithAnswers: async (_batch, answers) => {
      await storingAnswers(answers);
      const ids = answers.map(({ claim }) => claim.requestId);
      return ifUp({ booked: [], requestIds: new Set(isTakenOver ? [] : ids) });
    },
  };
  const log = createLog((line) => void logged.push(line));
  const deps = { store, dataDir, durability: 'journal', processId: 'p', log, now } as const;
  accounting = await Accounting.open({
    ...deps,
    onEnded: (request) => void endedRequests.push(request),
  });
  journal = join(dataDir, 'journal', readdirSync(join(dataDir, 'journal'))[0] ?? '');
});

afterEach(async () => {
  isStoreDown = false;
  // A try that started while the store was down may still fail.
  await accounting.flush().catch(() => undefined);
  await accounting.close();
});

test('Accounting with 100,000 unbooked requests rejects new ones and does not record them', async () => {
  const one = settlementWith(0);
  for (let i = 0; i < 99_999; i++) void accounting.saveSettlement(one, false);
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  expect(hold.credits).toBe(5);
  for (let i = 0; i < 2; i++) void accounting.saveSettlement(one, false);
  expect(accounting.state().unbookedRequests).toBe(100_000);
  const full = 'Too many finished requests are waiting for the database. Try again in 30 seconds.';
  const newHold = () => accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  expect(await rejection(newHold)).toBe(full);
  const rejected = expect.objectContaining({ message: full, retryAfterSeconds: 30 });
  expect(() => accounting.requireCapacity()).toThrow(rejected);
}, 120_000);

test('Accounting reports that booking is behind long before it rejects calls', async () => {
  const eventsAfterCheck = async () => {
    logged = [];
    await Promise.allSettled(accounting.periodicTasks().map((task) => task.run()));
    const events = logged.map((line) => JSON.parse(line));
    return events.filter(({ event }) => event !== 'booking_failed');
  };
  const one = settlementWith(0);
  const recent = { ...one, record: { ...one.record, createdAt: Date.now() } };
  void accounting.saveSettlement(recent, false);
  expect(await eventsAfterCheck()).toEqual([]);
  expect([accounting.warning(), accounting.state().isBookingBehind]).toEqual([undefined, false]);
  for (let i = 1; i < 20_000; i++) void accounting.saveSettlement(recent, false);
  const behind = { event: 'booking_behind', waiting: 20_000, waiting_max: 100_000 };
  expect(await eventsAfterCheck()).toMatchObject([{ level: 'warn', ...behind }]);
  expect(accounting.warning()).toStartWith(
    'Booking is behind: 20,000 finished requests wait for the database',
  );
  expect(accounting.state().isBookingBehind).toBe(true);
  expect(await eventsAfterCheck()).toEqual([]);
  accounting.requireCapacity();

  isStoreDown = false;
  await flushed();
  const caughtUp = { event: 'booking_caught_up', waiting: 0, booked_per_second: 2_000 };
  expect(await eventsAfterCheck()).toMatchObject([{ level: 'info', ...caughtUp }]);
}, 120_000);

test('Accounting logs a failed commit at once and then every minute, and the recovery', async () => {
  const linesOf = async (call: () => Promise<unknown>) => {
    logged = [];
    await call();
    return logged.map((line): unknown => {
      const { time: _, ...fields } = JSON.parse(line);
      return fields;
    });
  };
  const failed = { level: 'error', event: 'booking_failed', waiting: 1, reason: 'unavailable' };
  const failingFlush = () => rejection(() => accounting.flush());
  const minute = () => Promise.allSettled(accounting.periodicTasks().map((task) => task.run()));
  await accounting.saveSettlement(settlementWith(0), false);
  expect(await linesOf(failingFlush)).toEqual([failed]);
  expect(await linesOf(failingFlush)).toEqual([]);
  expect(await linesOf(minute)).toEqual([failed]);
  isStoreDown = false;
  expect(await linesOf(flushed)).toEqual([{ level: 'info', event: 'booking_recovered' }]);
  expect(await linesOf(minute)).toEqual([]);
});

test('Accounting owes a charge until it is committed', async () => {
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  expect(leasedAt).toBeGreaterThan(receivedAt + 59_999);
  await hold.settle(5);
  await accounting.saveSettlement(settlementWith(5), true);
  expect(accounting.state()).toMatchObject({ leasedCredits: 5, unbookedCredits: 5 });
  booked = [{ account: 'tenant:ten_1', charge: 5, fromLease: { lease: 1, credits: 5 } }];
  isStoreDown = false;
  await accounting.flush();
  expect(accounting.state()).toMatchObject({ leasedCredits: 0, unbookedCredits: 0 });
});

test('Accounting journals replayed answers, but not rejections', async () => {
  const again = settlementOf(crypto.randomUUID(), caller, 0, { cacheHit: true });
  await accounting.saveSettlement(again, false);
  await accounting.saveSettlement(
    settlementOf(crypto.randomUUID(), caller, 0, { status: 'error' }),
    false,
  );
  const lines = readdirSync(journal).map((name) => readFileSync(join(journal, name), 'utf8'));
  const ids = lines.flatMap((text) => [...readLines(text)]).map(idOf);
  expect(ids).toEqual([again.record.requestId]);
  expect(accounting.state().unbookedRequests).toBe(2);
  // Neither was dispatched, and both are reported.
  expect(endedRequests.map(({ status }) => status)).toEqual(['success', 'error']);
});

test('Accounting leaves no journal behind once a replayed answer is committed', async () => {
  isStoreDown = false;
  const saving = accounting.saveSettlement(
    settlementOf(crypto.randomUUID(), caller, 0, { cacheHit: true }),
    false,
  );
  // The log is read at the same time.
  await accounting.flush();
  await saving;
  await accounting.close();
  expect(existsSync(journal)).toBe(false);
});

test('Accounting charges nothing for a request that it cannot journal', async () => {
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 100, minimum: 100 });
  await hold.settle(70);
  expect(accounting.state()).toMatchObject({
    leasedCredits: 100,
    heldCredits: 0,
    unbookedCredits: 70,
  });
  rmSync(journal, { recursive: true });
  // A file in place of the folder, so that no segment can be opened.
  writeFileSync(journal, '');
  expect(await rejection(() => accounting.saveSettlement(settlementWith(70), true))).toContain(
    "can't write its journal",
  );
  expect(accounting.state()).toMatchObject({
    leasedCredits: 100,
    heldCredits: 0,
    unbookedCredits: 0,
  });
  expect(() => accounting.requireCapacity()).toThrow("journal can't be written");
  // The row of the request log is committed once the store is back.
  isStoreDown = false;
  await flushed();
  expect(committed.map(({ record }) => [record.status, record.charges])).toEqual([
    ['error', noCharges],
  ]);
}, 120_000);

test('Accounting waits a moment for the journal to become writable again', async () => {
  const late = settlementWith(70);
  await accounting.dispatched(late.record);
  const settled = spyOn(Journal.prototype, 'settled').mockRejectedValueOnce(new Error('full'));
  await accounting.saveSettlement(late, true);
  settled.mockRestore();
  expect(endedRequests).toMatchObject([{ status: 'success' }]);
  expect(accounting.state()).toMatchObject({ requestsInFlight: 0, unbookedRequests: 1 });
});

test('Accounting writes heartbeats and replays the journal of a dead process', async () => {
  isStoreDown = false;
  const left = settlementWith(70);
  const dead = join(journal, '..', 'elsewhere~1~dead');
  mkdirSync(dead);
  const line = journalLine(JSON.stringify({ kind: 'settled', settlement: left }));
  writeFileSync(join(dead, '00000000.jsonl'), `${line}not a line\n`);
  utimesSync(journal, 1, 1);
  // One poll per minute: 5 minutes without a heartbeat.
  for (let minutes = 0; minutes <= 5; minutes += 1) {
    for (const task of accounting.periodicTasks()) await task.run();
  }
  expect(statSync(journal).mtimeMs).toBeGreaterThan(1_000);
  expect(committed).toEqual([left]);
  expect(logged.map((text) => JSON.parse(text))).toMatchObject([
    { event: 'journal_damaged', lines: 1 },
    { event: 'journal_replayed', requests: 1 },
  ]);
});

test('Accounting reads after committing, without waiting for deferred requests of other tenants', async () => {
  const read = mock(async () => committed.length);
  await accounting.saveSettlement(settlementWith(0), false);
  expect(await rejection(() => accounting.readSettled(read))).toBe(
    "The database can't be reached right now.",
  );
  expect(read).not.toHaveBeenCalled();
  isStoreDown = false;
  await flushed();
  const theirs = settlementOf(crypto.randomUUID(), callerOf('ten_2'), 0);
  const { requestId, tenantId } = theirs.record;
  beforeCommit = async ({ entries }) => {
    if (entries.every((entry) => entry.requestId !== requestId)) return;
    throw new ClaimsInUse(new Map([[requestId, tenantId]]));
  };
  await accounting.saveSettlement(theirs, false);
  await accounting.saveSettlement(settlementWith(0), false);
  expect(await accounting.readSettled(read, 'ten_1')).toBe(2);
  expect(accounting.state().unbookedRequests).toBe(1);
  beforeCommit = async () => undefined;
});

test('Accounting.close waits for requests after the machine was suspended', async () => {
  isStoreDown = false;
  const late = settlementWith(70);
  await accounting.dispatched(late.record);
  const closing = accounting.close();
  Bun.sleepSync(3_100);
  // Timeouts of upstream calls fire only now.
  await Bun.sleep(100);
  await accounting.saveSettlement(late, true);
  await closing;
  // The next startup finds no unfinished request.
  expect(existsSync(journal)).toBe(false);
}, 120_000);

test('Accounting.close leaves an unfinished request in the journal', async () => {
  isStoreDown = false;
  await accounting.dispatched(settlementWith(70).record);
  await accounting.close();
  expect(readdirSync(journal).toSorted()).toEqual(['00000000.jsonl', 'lock']);
}, 120_000);

test('Accounting.close rejects without the store and keeps the last charges in the journal', async () => {
  const last = settlementWith(70);
  await accounting.dispatched(last.record);
  await accounting.saveSettlement(last, true);
  expect(await accounting.close().catch(String)).toContain('The last charges are in the journal');
  const lines = readdirSync(journal).map((name) => readFileSync(join(journal, name), 'utf8'));
  const ids = lines.flatMap((text) => [...readLines(text)]).map(idOf);
  expect(ids).toEqual([last.record.requestId, last.record.requestId]);
});

describe('Accounting.saveWithAnswer', () => {
  /** Saves a dispatched request's answer with a charge of 70 of 100 held credits. */
  async function saveAnswer() {
    const settlement = settlementWith(70);
    const { requestId } = settlement.record;
    const hold = await accounting.hold({ caller, receivedAt }, { requested: 100, minimum: 100 });
    await accounting.dispatched({ ...settlement.record, requestId });
    await hold.settle(70);
    const claim = { tenantId: 'ten_1', key: 'k', fingerprint: 'f', requestId };
    return accounting.saveWithAnswer({ claim, recording: null, expiresAt: 1 }, settlement);
  }

  test('does not make an answer wait for a long one', async () => {
    isStoreDown = false;
    const made = { dialect: 'openai', form: 'reply', model: 'a/b', provider: 'p' } as const;
    const [started, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    storingAnswers = async ([first]) => {
      if (!first?.recording) return;
      started.resolve();
      await released.promise;
    };
    const save = async (recording: Recording | null) => {
      const settlement = settlementWith(0);
      const { requestId } = settlement.record;
      await accounting.dispatched(settlement.record);
      const claim = { tenantId: 'ten_1', key: requestId, fingerprint: 'f', requestId };
      return accounting.saveWithAnswer({ claim, recording, expiresAt: 1 }, settlement);
    };
    const long = save({ ...made, text: 'x'.repeat(5_000_000) });
    await within(started.promise, 'the commit to start');
    expect(await save(null)).toBe('written');
    released.resolve();
    expect(await long).toBe('written');
  });

  test('commits at once and leaves nothing in the journal', async () => {
    isStoreDown = false;
    expect(await saveAnswer()).toBe('written');
    expect(accounting.state()).toMatchObject({ requestsInFlight: 0, unbookedRequests: 0 });
    expect(endedRequests).toMatchObject([{ status: 'success' }]);
    await accounting.close();
    expect(existsSync(journal)).toBe(false);
  });

  test('succeeds even if a journal segment cannot be removed', async () => {
    isStoreDown = false;
    const free = async () => {
      const settlement = settlementWith(0);
      const { requestId } = settlement.record;
      // So long that its segment is removed as soon as it is committed.
      await accounting.dispatched({ ...settlement.record, requestedModel: 'x'.repeat(600_000) });
      const names = readdirSync(journal).filter((name) => name.endsWith('.jsonl'));
      const segment = join(journal, names.toSorted().at(-1) ?? '');
      rmSync(segment);
      mkdirSync(segment);
      const claim = { tenantId: 'ten_1', key: 'k', fingerprint: 'f', requestId };
      return accounting.saveWithAnswer({ claim, recording: null, expiresAt: 1 }, settlement);
    };
    expect([await free(), await free()]).toEqual(['written', 'written']);
  });

  test('journals the charge while the store is down', async () => {
    expect(await saveAnswer()).toBe('unwritten');
    const state = { requestsInFlight: 0, unbookedRequests: 1, unbookedCredits: 70 };
    expect(accounting.state()).toMatchObject(state);
    const names = readdirSync(journal).filter((name) => name.endsWith('.jsonl'));
    const lines = names.map((name) => readFileSync(join(journal, name), 'utf8'));
    expect(lines.join()).toContain('"settled"');
    isStoreDown = false;
    await flushed();
    // The charge is committed with its claim, and is free if another request answered.
    expect(committed).toMatchObject([{ claim: { key: 'k' } }]);
  });

  test('charges nothing if another process has answered, and records why', async () => {
    isStoreDown = false;
    isTakenOver = true;
    expect(await saveAnswer()).toBe('taken_over');
    expect(accounting.state()).toMatchObject({
      heldCredits: 0,
      unbookedCredits: 0,
      requestsInFlight: 0,
    });
    expect(endedRequests).toMatchObject([
      { status: 'error', charges: noCharges, note: expect.stringContaining('Another process') },
    ]);
  });
});
