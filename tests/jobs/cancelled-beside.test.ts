import { expect, test } from 'bun:test';
import { JobBench } from '../support/job-bench.ts';

test('a job that is cancelled where it runs leaves those beside it alone', async () => {
  const bench = await JobBench.open();
  const caller = await bench.newCaller();
  const [ended, kept] = [await bench.speech(caller, 'One.'), await bench.speech(caller, 'Two.')];
  const gate = Promise.withResolvers<void>();
  bench.runner.onCall = async ({ signal }) => {
    const aborted = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => aborted.reject(new Error('aborted')));
    await Promise.race([gate.promise, aborted.promise]);
  };
  const worker = bench.worker();
  bench.onCancelled = (jobId) => worker.abortCanceled(jobId);
  await worker.claim();
  while (bench.runner.spoken.length < 2) await Bun.sleep(1);
  await bench.desk.cancel(caller.tenantId, ended, 'http://g.test');
  gate.resolve();
  await worker.idle();
  expect((await bench.job(caller, ended)).status).toBe('cancelled');
  expect((await bench.job(caller, kept)).status).toBe('succeeded');
  await bench.close();
});
