import { expect, test } from 'bun:test';
import { JobBench } from '../support/job-bench.ts';

test('canceling a job does not affect other jobs of the same worker', async () => {
  const bench = await JobBench.open();
  const caller = await bench.newCaller();
  const [canceled, other] = [
    await bench.speech(caller, 'One.'),
    await bench.speech(caller, 'Two.'),
  ];
  const gate = Promise.withResolvers<void>();
  bench.runner.onCall = async ({ signal }) => {
    const aborted = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => aborted.reject(new Error('aborted')));
    await Promise.race([gate.promise, aborted.promise]);
  };
  const worker = bench.worker();
  bench.onCanceled = (jobId) => worker.abortCanceled(jobId);
  await worker.claim();
  while (bench.runner.speechPieces.length < 2) await Bun.sleep(1);
  await bench.service.cancel(caller.tenantId, canceled, 'http://g.test');
  gate.resolve();
  await worker.idle();
  expect((await bench.job(caller, canceled)).status).toBe('cancelled');
  expect((await bench.job(caller, other)).status).toBe('succeeded');
  await bench.close();
});
