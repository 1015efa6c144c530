/** A piece can be charged even if its result is lost. The job's cost includes that charge. */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError } from '../../src/core/errors.ts';
import { RequestIdUsedError } from '../../src/jobs/runner.ts';
import { JobHarness } from '../support/job-harness.ts';

/** 6 pieces of up to 13 characters, at 2 credits per character. */
const text = 'Number one. Number two. Number three. Number four. Number five. Number six.';
const credits = { one: 22, two: 22, three: 26, four: 24 };

let harness: JobHarness;
let caller: Caller;

beforeEach(async () => {
  harness = await JobHarness.open(13);
  caller = await harness.newCaller();
});
afterEach(() => harness.close());

/**
 * Creates a job that waits for a retry because the store became unreachable after `stored` pieces.
 * The other pieces were charged, but their results weren't stored.
 */
async function jobWithLostPieces(input: string, stored: number): Promise<string> {
  const id = await harness.speech(caller, input);
  const { queue } = harness.store.jobs;
  const addPiece = queue.addPiece.bind(queue);
  let added = 0;
  const spy = spyOn(queue, 'addPiece').mockImplementation(async (lease, piece) => {
    if (added === stored) throw new Error('Connection terminated unexpectedly');
    added += 1;
    return addPiece(lease, piece);
  });
  await harness.runJobs();
  spy.mockRestore();
  return id;
}

/** Makes the retry fail because the key was revoked. */
async function failWithRevokedKey(): Promise<void> {
  harness.runner.onCall = async () => {
    throw new GatewayError('invalid_api_key', 'The API key of this job has been deleted.');
  };
  harness.now += 15_000;
  await harness.runJobs();
}

test('a failed job includes the cost of its only piece, whose result was lost', async () => {
  const id = await jobWithLostPieces('Number one.', 0);
  await failWithRevokedKey();
  const job = await harness.job(caller, id);
  expect(job).toMatchObject({ status: 'failed', piecesDone: 0, costCredits: credits.one });
  expect(harness.runner.charged).toBe(credits.one);
});

test('a failed job includes the cost of several lost pieces', async () => {
  const id = await jobWithLostPieces(text, 1);
  await failWithRevokedKey();
  const job = await harness.job(caller, id);
  const costCredits = credits.one + credits.two + credits.three + credits.four;
  expect(job).toMatchObject({ status: 'failed', piecesDone: 1, costCredits });
  expect(harness.runner.charged).toBe(costCredits);
});

test('a job canceled before its retry includes the cost of each lost piece once', async () => {
  const id = await jobWithLostPieces(text, 1);
  const costCredits = credits.one + credits.two + credits.three + credits.four;
  for (let times = 0; times < 2; times += 1) {
    const job = await harness.service.cancel(caller.tenantId, id, 'http://g.test');
    expect(job).toMatchObject({ status: 'cancelled', cost: costCredits });
  }
  expect(harness.runner.charged).toBe(costCredits);
});

test('a job canceled during its retry includes the cost of the piece charged before the retry', async () => {
  const id = await jobWithLostPieces('Number one.', 0);
  harness.now += 15_000;
  harness.runner.onCall = async () => {
    await harness.service.cancel(caller.tenantId, id, 'http://g.test');
  };
  await harness.runJobs();
  expect(await harness.job(caller, id)).toMatchObject({
    status: 'cancelled',
    costCredits: credits.one,
  });
});

test('a job fails when all request IDs of a piece were recorded as free', async () => {
  const id = await harness.speech(caller, 'Number one.');
  const spy = spyOn(harness.runner, 'chargeOf').mockResolvedValue({ kind: 'free' });
  for (const waitMs of [0, 15_000, 300_000]) {
    harness.now += waitMs;
    await harness.runJobs();
  }
  spy.mockRestore();
  expect(await harness.job(caller, id)).toMatchObject({ status: 'failed', costCredits: 0 });
});

test('a piece is repeated with a new request id if another worker used its id', async () => {
  const id = await harness.speech(caller, 'Short.');
  harness.runner.onCall = async ({ requestId }) => {
    if (harness.runner.speechPieces.length > 1) return;
    harness.runner.recordFree(requestId);
    throw new RequestIdUsedError('Another worker used the id.');
  };
  await harness.runJobs();
  const ids = harness.runner.speechPieces.map(({ requestId }) => requestId);
  expect([ids.length, new Set(ids).size]).toEqual([2, 2]);
  // 2 credits for each of the 6 characters.
  expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 12 });
  expect(harness.runner.charged).toBe(12);
});
