import { expect, spyOn, test } from 'bun:test';
import { ActiveClock } from '../../../tests/support/active-clock.ts';
import { callerOf, settlementOf } from '../../../tests/support/money/settlements.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import type { AnswerWriteResult, IdempotentAnswer } from '../../core/recording.ts';
import type { Batch, BookedAnswers } from '../ledger.ts';
import { toSettlementEntry } from '../ledger.ts';
import { AnswerBatchWriter } from './answer-batch-writer.ts';

const caller = callerOf('ten_1');
/** Waits for one turn of the event loop. */
const nextTurn = () => new Promise(setImmediate);

/** A writer with a store whose transactions end when the test ends them. */
function writerWith(writeTimeoutMs = 600_000, stallMs?: number) {
  const transactions: {
    requestIds: string[];
    mayRepeat: boolean;
    end: PromiseWithResolvers<BookedAnswers>;
  }[] = [];
  const committed: string[] = [];
  const store = {
    commitWithAnswers: ({ mayRepeat }: Batch, answers: readonly IdempotentAnswer[]) => {
      const end = Promise.withResolvers<BookedAnswers>();
      transactions.push({
        requestIds: answers.map(({ claim }) => claim.requestId),
        mayRepeat,
        end,
      });
      return end.promise;
    },
  };
  const onCommit = (_booked: unknown, ids: readonly string[]) => void committed.push(...ids);
  const writer = new AnswerBatchWriter(
    { store, processId: 'p', onCommit },
    writeTimeoutMs,
    stallMs,
  );
  const book = (length = 0): Promise<AnswerWriteResult> => {
    const requestId = crypto.randomUUID();
    const claim = { tenantId: 'ten_1', key: requestId, fingerprint: 'f', requestId };
    const text = 'x'.repeat(length);
    const recording = { dialect: '', form: 'reply', model: '', provider: '', text } as const;
    const answer = { claim, recording, expiresAt: 1 };
    return writer.book(answer, toSettlementEntry(settlementOf(requestId, caller, 1)));
  };
  /** Ends the transaction with this number, without its first `lost` answers. */
  const end = async (number: number, lost = 0) => {
    const { requestIds, end: ended } = transactions[number] ?? {};
    ended?.resolve({ booked: [], requestIds: new Set(requestIds?.slice(lost)) });
    await nextTurn();
  };
  const sizes = () => transactions.map(({ requestIds }) => requestIds.length);
  return { book, end, transactions, committed, sizes };
}

test('AnswerBatchWriter commits answers that end during a transaction in the next one', async () => {
  const { book, end, committed, transactions, sizes } = writerWith();
  const all = [book(), book(), book()];
  expect(sizes()).toEqual([1]);
  await end(0);
  expect(sizes()).toEqual([1, 2]);
  await end(1);
  expect(await Promise.all(all)).toEqual(['written', 'written', 'written']);
  expect(committed).toEqual(transactions.flatMap(({ requestIds }) => requestIds));
});

test('AnswerBatchWriter skips only the answer whose claim was taken over', async () => {
  const { book, end, committed, transactions } = writerWith();
  const all = [book(), book(), book()];
  await end(0);
  await end(1, 1);
  expect(await Promise.all(all)).toEqual(['written', 'taken_over', 'written']);
  expect(committed).not.toContain(transactions[1]?.requestIds[0]);
});

test('AnswerBatchWriter commits at most 50 answers together, and long ones alone', async () => {
  const { book, end, sizes } = writerWith();
  for (let i = 0; i < 52; i++) void book();
  for (const length of [600_000, 600_000, 2_000_000]) void book(length);
  for (const number of [0, 1, 2, 3]) await end(number);
  expect(sizes()).toEqual([1, 50, 2, 1, 1]);
});

test('AnswerBatchWriter reports answers as unwritten after 2 failures and still tries the next', async () => {
  const { book, end, transactions } = writerWith();
  const all = [book(), book()];
  transactions[0]?.end.reject(new Error('unavailable'));
  await waitUntil(() => transactions.length >= 2);
  transactions[1]?.end.reject(new Error('still unavailable'));
  expect(await Promise.all(all)).toEqual(['unwritten', 'unwritten']);
  await nextTurn();
  const next = book();
  await end(2);
  expect(await next).toBe('written');
});

test('AnswerBatchWriter tries again after a closed connection and detects that the claim was lost', async () => {
  const { book, end, committed, transactions } = writerWith();
  const result = book();
  transactions[0]?.end.reject(new Error('Connection terminated unexpectedly'));
  await waitUntil(() => transactions.length >= 2);
  // The first transaction may have been committed.
  expect(transactions.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
  await end(1, 1);
  expect(await result).toBe('taken_over');
  expect(committed).toEqual([]);
});

test('AnswerBatchWriter waits no longer for 2 tries than for 1', async () => {
  const { book, transactions, committed, end } = writerWith(1_000);
  using activeClock = new ActiveClock();
  const result = book();
  setTimeout(
    () => transactions[0]?.end.reject(new Error('Connection terminated unexpectedly')),
    900,
  );
  expect(await result).toBe('unwritten');
  expect(activeClock.ms).toBeLessThan(1_500);
  // The second transaction continues. The later commit of the charge shows how it ended.
  expect(transactions.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
  await end(1);
  expect(committed).toEqual([]);
});

test('AnswerBatchWriter does not wait for a transaction that takes too long', async () => {
  const { book, end, committed, sizes } = writerWith(20);
  const waiting = [book(), book()];
  expect(await Promise.all(waiting)).toEqual(['unwritten', 'unwritten']);
  // Later answers don't wait at all while the transaction is still running.
  expect(await book()).toBe('unwritten');
  expect(sizes()).toEqual([1]);
  await end(0);
  // The later commit of those charges shows how the transaction ended.
  expect(committed).toEqual([]);
  const next = book();
  await end(1);
  expect(await next).toBe('written');
});

test('AnswerBatchWriter sends a slow write once, however long the process has been running', async () => {
  const day = 86_400_000;
  const uptime = performance.now.bind(performance);
  using _ = spyOn(performance, 'now').mockImplementation(() => uptime() + 30 * day);
  const { book, sizes } = writerWith(20, day);
  expect(await book()).toBe('unwritten');
  expect(sizes()).toEqual([1]);
});

test('AnswerBatchWriter tries again after the process was suspended', async () => {
  const { book, end, committed, transactions, sizes } = writerWith(500, 600);
  let result: AnswerWriteResult | undefined;
  void book().then((answer) => {
    result = answer;
  });
  // As after the machine was suspended: both the timeout and the transaction have ended.
  setTimeout(() => transactions[0]?.end.reject(new Error('idle in transaction')), 1);
  Bun.sleepSync(700);
  await waitUntil(() => result !== undefined || sizes().length >= 2);
  // The process hasn't really waited yet, so the store gets the full time.
  await Bun.sleep(100);
  // The first transaction may have been committed.
  expect(transactions.map(({ mayRepeat }) => mayRepeat)).toEqual([false, true]);
  await end(1, 1);
  expect(result).toBe('taken_over');
  expect(committed).toEqual([]);
});
