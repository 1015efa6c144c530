import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import type { EnqueueRejection } from '../../src/jobs/queue.ts';
import { failureOf } from '../contracts/failure-of.ts';
import { JobHarness } from '../support/job-harness.ts';

let harness: JobHarness;

beforeAll(async () => {
  harness = await JobHarness.open();
});
afterAll(() => harness.close());

const queueFull = (limit: string) => ({
  ...{ status: 429, symbol: 'rate_limit_exceeded', retryAfterSeconds: 60 },
  message: `This account can have at most ${limit} queued. Retry after a job finishes.`,
});

test.each<[EnqueueRejection, object]>([
  ['too_many_jobs', queueFull('10000 jobs')],
  ['too_many_bytes', queueFull('20 GiB of input')],
  ['claim_taken_over', { status: 409, param: 'Idempotency-Key' }],
])('rejects a job and deletes its text when the queue returns %s', async (reason, rejection) => {
  const caller = await harness.newCaller();
  const result = { ok: false, reason } as const;
  const enqueue = spyOn(harness.store.jobs.store, 'enqueue').mockResolvedValueOnce(result);
  expect(await failureOf(harness.speech(caller, 'Short.'))).toMatchObject(rejection);
  const bounds = { waitingMax: 10_000, inputBytesMax: 20 * 1024 ** 3 };
  expect(enqueue).toHaveBeenCalledWith(expect.anything(), bounds, null);
  enqueue.mockRestore();
  expect(harness.storedObjects()).toEqual([]);
});
