import { expect, test } from 'bun:test';
import { RequestIdUsedError } from '../../src/jobs/runner.ts';
import { JobBench } from '../support/job-bench.ts';

test('a piece whose id another worker used while it ran is repeated under a new id', async () => {
  const bench = await JobBench.open();
  const caller = await bench.newCaller();
  const id = await bench.speech(caller, 'Short.');
  bench.runner.onCall = async ({ requestId }) => {
    if (bench.runner.speechPieces.length > 1) return;
    bench.runner.recordFree(requestId);
    throw new RequestIdUsedError('Another worker used the id.');
  };
  await bench.runJobs();
  const ids = bench.runner.speechPieces.map(({ requestId }) => requestId);
  expect([ids.length, new Set(ids).size]).toEqual([2, 2]);
  // 2 credits for each of the 6 characters.
  expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 12 });
  expect(bench.runner.charged).toBe(12);
  await bench.close();
});
