import { expect, test } from 'bun:test';
import { RequestIdUsedError } from '../../src/jobs/runner.ts';
import { JobHarness } from '../support/job-harness.ts';

test('a piece whose id another worker used while it ran is repeated under a new id', async () => {
  const harness = await JobHarness.open();
  const caller = await harness.newCaller();
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
  await harness.close();
});
