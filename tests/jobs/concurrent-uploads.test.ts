/** Uploads are stored before they can be charged, so only a few may be unfinished at a time. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { FormPart } from '../../src/core/form.ts';
import { wavFile } from '../support/audio-files.ts';
import { formOf, JobHarness } from '../support/job-harness.ts';

let harness: JobHarness;

beforeAll(async () => {
  harness = await JobHarness.open();
});
afterAll(() => harness.close());

test("a tenant's 33rd upload is rejected unread while the other 32 are in progress", async () => {
  const [caller, other] = [await harness.newCaller(), await harness.newCaller()];
  const gate = Promise.withResolvers<void>();
  async function* slow(): AsyncGenerator<FormPart> {
    await gate.promise;
    yield* formOf(wavFile(1), { model: 'test/transcription' });
  }
  const { tenantId } = caller;
  const uploads = Array.from({ length: 32 }, () => harness.service.receive(tenantId, slow()));
  const unread = formOf(wavFile(1), { model: 'test/transcription' });
  const rejected = harness.service.receive(tenantId, unread);
  await expect(rejected).rejects.toMatchObject({
    ...{ status: 429, symbol: 'rate_limit_exceeded', retryAfterSeconds: 5 },
  });
  expect((await unread.next()).value).toMatchObject({ kind: 'file' });
  expect(await harness.transcription(other, wavFile(1))).toStartWith('job_');
  gate.resolve();
  for (const form of await Promise.all(uploads)) await harness.service.discardForm(form);
  expect(await harness.transcription(caller, wavFile(1))).toStartWith('job_');
});

test('unfinished uploads are rejected while there is no space for them', async () => {
  const caller = await harness.newCaller();
  const others = harness.uploadBudget.openReservation('other tenants');
  others.reserve(harness.uploadBytesMax / 2);
  const own = harness.uploadBudget.openReservation(caller.tenantId);
  own.reserve(harness.uploadBytesMax / 4);
  const storedBefore = harness.storedObjects();
  await expect(harness.transcription(caller, wavFile(1))).rejects.toMatchObject({ status: 503 });
  expect(harness.storedObjects()).toEqual(storedBefore);
  own.release();
  expect(await harness.transcription(caller, wavFile(1))).toStartWith('job_');
  others.release();
});
