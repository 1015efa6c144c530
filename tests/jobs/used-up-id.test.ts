import { expect, test } from 'bun:test';
import { RequestIdUsedError } from '../../src/jobs/runner.ts';
import { JobBench } from '../support/job-bench.ts';

test('a piece whose id the books took while it ran is run again under another', async () => {
  const bench = await JobBench.open();
  const caller = await bench.newCaller();
  const id = await bench.speech(caller, 'Short.');
  bench.runner.onCall = async ({ requestId }) => {
    if (bench.runner.spoken.length > 1) return;
    bench.runner.died(requestId);
    throw new RequestIdUsedError('The books have it.');
  };
  await bench.workOff();
  const ids = bench.runner.spoken.map(({ requestId }) => requestId);
  expect([ids.length, new Set(ids).size]).toEqual([2, 2]);
  // Two credits for each of the six characters.
  expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 12 });
  expect(bench.runner.charged).toBe(12);
  await bench.close();
});
