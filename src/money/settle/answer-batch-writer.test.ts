import { expect, test } from 'bun:test';
import { Awake } from '../../../tests/support/awake.ts';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../../core/recording.ts';
import type { Batch, BookedAnswers } from '../ledger.ts';
import { toSettlementEntry } from '../ledger.ts';
import { AnswerBatchWriter } from './answer-batch-writer.ts';

const caller = callerOf('ten_1');
/** Lets everything run that waits for nothing but its turn. */
const settled = () => new Promise(setImmediate);

/** A drain over a store whose changes end when the test says how. */
function drainWith(writeMs = 600_000, stillMs?: number) {
  const changes: {
    requestIds: string[];
    mayRepeat: boolean;
    end: PromiseWithResolvers<BookedAnswers>;
  }[] = [];
  const committed: string[] = [];
  const store = {
    commitWithAnswers: ({ mayRepeat }: Batch, answers: readonly IdempotentAnswer[]) => {
      const end = Promise.withResolvers<BookedAnswers>();
      changes.push({ requestIds: answers.map(({ claim }) => claim.requestId), mayRepeat, end });
      return end.promise;
    },
  };
  const onCommit = (_booked: unknown, ids: readonly string[]) => void committed.push(...ids);
  const writer = new AnswerBatchWriter({ store, processId: 'p', onCommit }, writeMs, stillMs);
  const book = (length = 0): Promise<AnswerWriteResult> => {
    const requestId = crypto.randomUUID();
    const claim = { tenantId: 'ten_1', key: requestId, fingerprint: 'f', requestId };
    const text = 'x'.repeat(length);
    const recording = { dialect: '', form: 'whole', model: '', provider: '', text } as const;
    const answer = { claim, recording, expiresAt: 1 };
    return writer.book(answer, toSettlementEntry(settlementOf(requestId, caller, 1)));
  };
  /** The change with this number ends: all of it is taken, or all but its first. */
  const end = async (number: number, lost = 0) => {
    const { requestIds, end: ended } = changes[number] ?? {};
    ended?.resolve({ booked: [], requestIds: new Set(requestIds?.slice(lost)) });
    await settled();
  };
  const sizes = () => changes.map(({ requestIds }) => requestIds.length);
  return { book, end, changes, committed, sizes };
}

test('answers that end while a change is under way share the next one', async () => {
  const { book, end, committed, changes, sizes } = drainWith();
  const all = [book(), book(), book()];
  expect(sizes()).toEqual([1]);
  await end(0);
  expect(sizes()).toEqual([1, 2]);
  await end(1);
  expect(await Promise.all(all)).toEqual(['written', 'written', 'written']);
  expect(committed).toEqual(changes.flatMap(({ requestIds }) => requestIds));
});

test('an answer whose claim was taken over is not booked, the others are', async () => {
  const { book, end, committed, changes } = drainWith();
  const all = [book(), book(), book()];
  await end(0);
  await end(1, 1);
  expect(await Promise.all(all)).toEqual(['written', 'taken_over', 'written']);
  expect(committed).not.toContain(changes[1]?.requestIds[0]);
});

test('a change has no more than fifty answers, and long ones go by themselves', async () => {
  const { book, end, sizes } = drainWith();
  for (let i = 0; i < 52; i++) void book();
  for (const length of [600_000, 600_000, 2_000_000]) void book(length);
  for (const number of [0, 1, 2, 3]) await end(number);
  expect(sizes()).toEqual([1, 50, 2, 1, 1]);
});

test('a change that fails twice leaves its answers unwritten, and the next is tried', async () => {
  const { book, end, changes } = drainWith();
  const all = [book(), book()];
  changes[0]?.end.reject(new Error('away'));
  while (changes.length < 2) await settled();
  changes[1]?.end.reject(new Error('still away'));
  expect(await Promise.all(all)).toEqual(['unwritten', 'unwritten']);
  await settled();
  const next = book();
  await end(2);
  expect(await next).toBe('written');
});

test('a process whose connections were cut asks again and hears who has the claim', async () => {
  const { book, end, committed, changes } = drainWith();
  const how = book();
  changes[0]?.end.reject(new Error('Connection terminated unexpectedly'));
  while (changes.length < 2) await settled();
  // The store may have made the first change without our hearing of it.
  expect(changes.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
  await end(1, 1);
  expect(await how).toBe('taken_over');
  expect(committed).toEqual([]);
});

test('an answer waits no longer for two tries than for one', async () => {
  const { book, changes, committed, end } = drainWith(1_000);
  using awake = new Awake();
  const how = book();
  setTimeout(() => changes[0]?.end.reject(new Error('Connection terminated unexpectedly')), 900);
  expect(await how).toBe('unwritten');
  expect(awake.ms).toBeLessThan(1_500);
  // The second try goes on; what it did shows when the charge is booked.
  expect(changes.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
  await end(1);
  expect(committed).toEqual([]);
});

test('nobody waits for a store behind a change that takes too long', async () => {
  const { book, end, committed, sizes } = drainWith(20);
  const behind = [book(), book()];
  expect(await Promise.all(behind)).toEqual(['unwritten', 'unwritten']);
  // Later answers do not wait at all: the same change is still under way.
  expect(await book()).toBe('unwritten');
  expect(sizes()).toEqual([1]);
  await end(0);
  // What the change did after all shows when those charges are booked.
  expect(committed).toEqual([]);
  const next = book();
  await end(1);
  expect(await next).toBe('written');
});

test('a process that stood still asks again and hears that another has the claim', async () => {
  const { book, end, committed, changes, sizes } = drainWith(500, 600);
  let how: AnswerWriteResult | undefined;
  void book().then((answer) => {
    how = answer;
  });
  // As when a machine is paused: both its patience and the transaction are over when it goes on.
  setTimeout(() => changes[0]?.end.reject(new Error('idle in transaction')), 1);
  Bun.sleepSync(700);
  while (how === undefined && sizes().length < 2) await settled();
  // It has waited for nothing yet, so the store has as long as ever.
  await Bun.sleep(100);
  // The store may have made the first change without our hearing of it.
  expect(changes.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
  await end(1, 1);
  expect(how).toBe('taken_over');
  expect(committed).toEqual([]);
});
