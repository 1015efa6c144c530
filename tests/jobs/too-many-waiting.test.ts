/** A job that the queue does not take is refused with a reason, and its text is not kept. */
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import type { EnqueueResult } from '../../src/jobs/queue.ts';
import { failureOf } from '../contracts/failure-of.ts';
import { JobBench } from '../support/job-bench.ts';

let bench: JobBench;

beforeAll(async () => {
  bench = await JobBench.open();
});
afterAll(() => bench.close());

const later = 'may wait at once; send this job when some have ended.';
const full = { status: 429, symbol: 'rate_limit_exceeded', retryAfterSeconds: 60 };

test.each<[EnqueueResult, object]>([
  ['too_many', { ...full, message: `No more than 10000 jobs ${later}` }],
  ['too_large', { ...full, message: `No more than 21474836480 bytes ${later}` }],
  ['taken_over', { status: 409, param: 'Idempotency-Key' }],
])('%s', async (outcome, refusal) => {
  const caller = await bench.newCaller();
  const enqueue = spyOn(bench.store.jobs.book, 'enqueue').mockResolvedValueOnce(outcome);
  expect(await failureOf(bench.speech(caller, 'Short.'))).toMatchObject(refusal);
  const bounds = { waitingMax: 10_000, inputBytesMax: 20 * 1024 ** 3 };
  expect(enqueue).toHaveBeenCalledWith(expect.anything(), bounds, null);
  enqueue.mockRestore();
  expect(bench.stored()).toEqual([]);
});
