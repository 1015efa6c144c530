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

const root = mkdtempSync(join(tmpdir(), 'tollgate-books-'));
afterAll(() => rmSync(root, { recursive: true }));

/** By the clock that processes share, it is a minute later than by ours. */
const now = () => Date.now() + 60_000;
const caller = callerOf('ten_1');
const receivedAt = Date.now();
const ended = (charge: number) => settlementOf(crypto.randomUUID(), caller, charge);
const refusal = async (act: () => unknown) => {
  try {
    await act();
  } catch (error) {
    if (error instanceof GatewayError) return error.message;
  }
  throw new Error('It was not refused.');
};

/** Once the store is back. A try that began while it was away may still fail. */
const flushed = () => accounting.flush().catch(() => accounting.flush());

const idOf = (line: JournalLine) =>
  line.kind === 'settled' ? line.settlement.record.requestId : line.call.requestId;

let accounting: Accounting;
let journal = '';
let isAway = true;
let isTakenOver = false;
let booked: readonly Booked[] = [];
let committing: (batch: Batch) => Promise<void>;
let committed: Settlement[] = [];
let recalled: string[] = [];
let leasedAt = 0;
let giveBack: () => Promise<void>;
let taking: (answers: readonly IdempotentAnswer[]) => Promise<void>;
let endedRequests: EndedRequest[] = [];
let logged: string[] = [];

/** Books on a store that leases what is asked for, and then is away. */
beforeEach(async () => {
  const dataDir = mkdtempSync(join(root, 'data-'));
  isAway = true;
  isTakenOver = false;
  booked = [];
  committing = async () => undefined;
  committed = [];
  recalled = [];
  giveBack = async () => undefined;
  taking = async () => undefined;
  endedRequests = [];
  logged = [];
  const here = async <T>(answer: T): Promise<T> => {
    if (isAway) throw new Error('away');
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
      };
    },
    returnCredits: async () => here(await giveBack()),
    renew: () => here(new Set(['tenant:ten_1'])),
    expire: () => here(undefined),
    recall: () => here(undefined),
    pendingRecalls: () => here(recalled),
    commit: async (batch) => {
      const answer = await here(booked);
      await committing(batch);
      committed.push(...parseBatch(batch).settlements);
      return answer;
    },
    commitWithAnswers: async (_batch, answers) => {
      await taking(answers);
      const ids = answers.map(({ claim }) => claim.requestId);
      return here({ booked: [], requestIds: new Set(isTakenOver ? [] : ids) });
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
  isAway = false;
  // A try that began while the store was away may still fail.
  await accounting.flush().catch(() => undefined);
  await accounting.close();
});

test('when 100,000 ends wait for the store, none begins and no refusal is added', async () => {
  const one = ended(0);
  for (let i = 0; i < 99_999; i++) void accounting.saveSettlement(one, false);
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  expect(hold.credits).toBe(5);
  for (let i = 0; i < 2; i++) void accounting.saveSettlement(one, false);
  expect(accounting.state().unbookedRequests).toBe(100_000);
  const full = 'Too many finished requests wait for the database; try again shortly.';
  const begin = () => accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  expect(await refusal(begin)).toBe(full);
  const refused = expect.objectContaining({ message: full, retryAfterSeconds: 5 });
  expect(() => accounting.requireCapacity()).toThrow(refused);
}, 120_000);

test('a store that is away is told at once, then once a minute, and when it is back', async () => {
  const linesOf = async (act: () => Promise<unknown>) => {
    logged = [];
    await act();
    return logged.map((line): unknown => {
      const { time: _, ...fields } = JSON.parse(line);
      return fields;
    });
  };
  const failed = { level: 'error', event: 'drain_failed', waiting: 1, reason: 'away' };
  const look = () => refusal(() => accounting.flush());
  const minute = () => Promise.allSettled(accounting.periodicTasks().map((task) => task.run()));
  await accounting.saveSettlement(ended(0), false);
  expect(await linesOf(look)).toEqual([failed]);
  expect(await linesOf(look)).toEqual([]);
  expect(await linesOf(minute)).toEqual([failed]);
  isAway = false;
  expect(await linesOf(flushed)).toEqual([{ level: 'info', event: 'booked_again' }]);
  expect(await linesOf(minute)).toEqual([]);
});

test('what an answer costs is owed until it is booked', async () => {
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  expect(leasedAt).toBeGreaterThan(receivedAt + 59_999);
  await hold.settle(5);
  await accounting.saveSettlement(ended(5), true);
  expect(accounting.state()).toMatchObject({ leasedCredits: 5, owedCredits: 5 });
  booked = [{ account: 'tenant:ten_1', charge: 5, fromLease: { lease: 1, credits: 5 } }];
  isAway = false;
  await accounting.flush();
  expect(accounting.state()).toMatchObject({ leasedCredits: 0, owedCredits: 0 });
});

test('an answer that is given again is in the journal, a refusal is not', async () => {
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
  // Neither was sent, and both are told of.
  expect(endedRequests.map(({ status }) => status)).toEqual(['success', 'error']);
});

test('an answer that is given again leaves nothing behind once it is booked', async () => {
  isAway = false;
  const saving = accounting.saveSettlement(
    settlementOf(crypto.randomUUID(), caller, 0, { cacheHit: true }),
    false,
  );
  // Somebody reads the log at the same moment.
  await accounting.flush();
  await saving;
  await accounting.close();
  expect(existsSync(journal)).toBe(false);
});

test('an end that the journal does not take costs nothing: its credits are free', async () => {
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 100, minimum: 100 });
  await hold.settle(70);
  expect(accounting.state()).toMatchObject({ leasedCredits: 100, heldCredits: 0, owedCredits: 70 });
  rmSync(journal, { recursive: true });
  // A file where the folder should be: nothing can be opened in it.
  writeFileSync(journal, '');
  expect(await refusal(() => accounting.saveSettlement(ended(70), true))).toContain(
    'journal cannot be written',
  );
  expect(accounting.state()).toMatchObject({ leasedCredits: 100, heldCredits: 0, owedCredits: 0 });
  expect(() => accounting.requireCapacity()).toThrow('journal cannot be written');
  // It is in the log all the same, once the store is back.
  isAway = false;
  await flushed();
  expect(committed.map(({ record }) => [record.status, record.charges])).toEqual([
    ['error', noCharges],
  ]);
}, 120_000);

test('an end waits a moment for a journal that can be written again', async () => {
  const late = ended(70);
  await accounting.dispatched(late.record);
  const settled = spyOn(Journal.prototype, 'settled').mockRejectedValueOnce(new Error('full'));
  await accounting.saveSettlement(late, true);
  settled.mockRestore();
  expect(endedRequests).toMatchObject([{ status: 'success' }]);
  expect(accounting.state()).toMatchObject({ requestsInFlight: 0, unbookedRequests: 1 });
});

test('a round tells that this process lives, and books what a dead one left', async () => {
  isAway = false;
  const left = ended(70);
  const dead = join(journal, '..', 'elsewhere~1~dead');
  mkdirSync(dead);
  const line = journalLine(JSON.stringify({ kind: 'settled', settlement: left }));
  writeFileSync(join(dead, '00000000.jsonl'), `${line}not a line\n`);
  utimesSync(journal, 1, 1);
  // A look a minute: five minutes of silence.
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

test('nothing is read before it is booked, nor waits for what another tenant put off', async () => {
  const read = mock(async () => committed.length);
  await accounting.saveSettlement(ended(0), false);
  expect(await refusal(() => accounting.readSettled(read))).toBe(
    'The store cannot be reached right now.',
  );
  expect(read).not.toHaveBeenCalled();
  isAway = false;
  await flushed();
  const theirs = settlementOf(crypto.randomUUID(), callerOf('ten_2'), 0);
  const { requestId, tenantId } = theirs.record;
  committing = async ({ entries: slips }) => {
    if (slips.every((slip) => slip.requestId !== requestId)) return;
    throw new ClaimsInUse(new Map([[requestId, tenantId]]));
  };
  await accounting.saveSettlement(theirs, false);
  await accounting.saveSettlement(ended(0), false);
  expect(await accounting.readSettled(read, 'ten_1')).toBe(2);
  expect(accounting.state().unbookedRequests).toBe(1);
  committing = async () => undefined;
});

test('credits on their way back to the store are not shown as held', async () => {
  const [begun, back] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  giveBack = () => {
    begun.resolve();
    return back.promise;
  };
  isAway = false;
  const views = () => [accounting.withoutSpare('ten_1'), accounting.withoutSpares()];
  const shown = (all = views(), leased = 5) => all.map((view) => view({ leased }).leased);
  const early = views();
  const hold = await accounting.hold({ caller, receivedAt }, { requested: 5, minimum: 5 });
  await hold.settle(0);
  // Leased while the wallet was read, or given back by the time it was.
  expect([...shown(early), ...shown(views(), 2)]).toEqual([0, 0, 0, 0]);
  const laterViews = views();
  recalled = ['tenant:ten_1'];
  const tasks = Promise.all(accounting.periodicTasks().map((task) => task.run()));
  await begun.promise;
  expect(shown()).toEqual([0, 0]);
  back.resolve();
  await tasks;
  // The wallet was read before they were back, and is shown after it.
  expect(shown(laterViews)).toEqual([0, 0]);
  // Now the store would say so: what it still calls leased is another process's.
  expect(shown()).toEqual([5, 5]);
});

test('a stop waits for what could not settle while the machine stood still', async () => {
  isAway = false;
  const late = ended(70);
  await accounting.dispatched(late.record);
  const closing = accounting.close();
  Bun.sleepSync(3_100);
  // The turns in which a provider's silence is noticed come only now.
  await Bun.sleep(100);
  await accounting.saveSettlement(late, true);
  await closing;
  // Nothing is left that the next start would take for a call that was killed, and free.
  expect(existsSync(journal)).toBe(false);
}, 120_000);

test('a stop leaves a call that does not end in the journal, and is over', async () => {
  isAway = false;
  await accounting.dispatched(ended(70).record);
  await accounting.close();
  expect(readdirSync(journal)).toHaveLength(1);
}, 120_000);

test('a stop without the store says where the last charges are: in the journal', async () => {
  const last = ended(70);
  await accounting.dispatched(last.record);
  await accounting.saveSettlement(last, true);
  expect(await accounting.close().catch(String)).toContain(
    'in the journal, for the next start here',
  );
  const lines = readdirSync(journal).map((name) => readFileSync(join(journal, name), 'utf8'));
  const ids = lines.flatMap((text) => [...readLines(text)]).map(idOf);
  expect(ids).toEqual([last.record.requestId, last.record.requestId]);
});

describe('an answer under an idempotency key', () => {
  /** Sent, charged 70 of 100 credits, and kept with its charge. */
  async function saveNamed() {
    const settlement = ended(70);
    const { requestId } = settlement.record;
    const hold = await accounting.hold({ caller, receivedAt }, { requested: 100, minimum: 100 });
    await accounting.dispatched({ ...settlement.record, requestId });
    await hold.settle(70);
    const claim = { tenantId: 'ten_1', key: 'k', fingerprint: 'f', requestId };
    return accounting.saveWithAnswer({ claim, recording: null, expiresAt: 1 }, settlement);
  }

  test('does not wait behind a long one that the store takes its time for', async () => {
    isAway = false;
    const made = { dialect: 'openai', form: 'whole', model: 'a/b', provider: 'p' } as const;
    const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    taking = async ([first]) => {
      if (!first?.recording) return;
      begun.resolve();
      await released.promise;
    };
    const save = async (recording: Recording | null) => {
      const settlement = ended(0);
      const { requestId } = settlement.record;
      await accounting.dispatched(settlement.record);
      const claim = { tenantId: 'ten_1', key: requestId, fingerprint: 'f', requestId };
      return accounting.saveWithAnswer({ claim, recording, expiresAt: 1 }, settlement);
    };
    const long = save({ ...made, text: 'x'.repeat(5_000_000) });
    await begun.promise;
    expect(await save(null)).toBe('written');
    released.resolve();
    expect(await long).toBe('written');
  });

  test('is in the books at once: nothing waits, and the journal has nothing to tell', async () => {
    isAway = false;
    expect(await saveNamed()).toBe('written');
    expect(accounting.state()).toMatchObject({ requestsInFlight: 0, unbookedRequests: 0 });
    expect(endedRequests).toMatchObject([{ status: 'success' }]);
    await accounting.close();
    expect(existsSync(journal)).toBe(false);
  });

  test('is written, and so is the next, where the journal cannot be tidied after it', async () => {
    isAway = false;
    const free = async () => {
      const settlement = ended(0);
      const { requestId } = settlement.record;
      // So long that its file is removed as soon as it is booked.
      await accounting.dispatched({ ...settlement.record, requestedModel: 'x'.repeat(600_000) });
      const segment = join(journal, readdirSync(journal).toSorted().at(-1) ?? '');
      rmSync(segment);
      mkdirSync(segment);
      const claim = { tenantId: 'ten_1', key: 'k', fingerprint: 'f', requestId };
      return accounting.saveWithAnswer({ claim, recording: null, expiresAt: 1 }, settlement);
    };
    expect([await free(), await free()]).toEqual(['written', 'written']);
  });

  test('waits for a store that is away as others do', async () => {
    expect(await saveNamed()).toBe('unwritten');
    const state = { requestsInFlight: 0, unbookedRequests: 1, owedCredits: 70 };
    expect(accounting.state()).toMatchObject(state);
    const lines = readdirSync(journal).map((name) => readFileSync(join(journal, name), 'utf8'));
    expect(lines.join()).toContain('"settled"');
    isAway = false;
    await flushed();
    // The charge comes with its claim: it is free if another answered in the meantime.
    expect(committed).toMatchObject([{ claim: { key: 'k' } }]);
  });

  test('costs nothing when another process has answered, and its row says so', async () => {
    isAway = false;
    isTakenOver = true;
    expect(await saveNamed()).toBe('taken_over');
    expect(accounting.state()).toMatchObject({
      heldCredits: 0,
      owedCredits: 0,
      requestsInFlight: 0,
    });
    expect(endedRequests).toMatchObject([
      { status: 'error', charges: noCharges, note: expect.stringContaining('Another process') },
    ]);
  });
});
