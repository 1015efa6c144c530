import { expect, test } from 'bun:test';
import { JobHarness } from '../support/job-harness.ts';

test('canceling a job does not affect other jobs of the same worker', async () => {
  const harness = await JobHarness.open();
  const caller = await harness.newCaller();
  const [canceled, other] = [
    await harness.speech(caller, 'One.'),
    await harness.speech(caller, 'Two.'),
  ];
  const gate = Promise.withResolvers<void>();
  harness.runner.onCall = async ({ signal }) => {
    const aborted = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => aborted.reject(new Error('aborted')));
    await Promise.race([gate.promise, aborted.promise]);
  };
  const worker = harness.worker();
  harness.onCanceled = (jobId) => worker.abortCanceled(jobId);
  await worker.claim();
  while (harness.runner.speechPieces.length < 2) await Bun.sleep(1);
  await harness.service.cancel(caller.tenantId, canceled, 'http://g.test');
  gate.resolve();
  await worker.idle();
  expect((await harness.job(caller, canceled)).status).toBe('cancelled');
  expect((await harness.job(caller, other)).status).toBe('succeeded');
  await harness.close();
});
