/** Files for jobs are kept before anybody knows what they are worth: a tenant sends few at once. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { FormPart } from '../../src/core/form.ts';
import { wavFile } from '../support/audio-files.ts';
import { formOf, JobBench } from '../support/job-bench.ts';

let bench: JobBench;

beforeAll(async () => {
  bench = await JobBench.open();
});
afterAll(() => bench.close());

test('one more than 32 is refused unread, other tenants are not; places come back', async () => {
  const [one, other] = [await bench.newCaller(), await bench.newCaller()];
  const gate = Promise.withResolvers<void>();
  async function* slow(): AsyncGenerator<FormPart> {
    await gate.promise;
    yield* formOf(wavFile(1), { model: 'played/hear' });
  }
  const arriving = Array.from({ length: 32 }, () => bench.desk.receive(one.tenantId, slow()));
  const unread = formOf(wavFile(1), { model: 'played/hear' });
  const refused = bench.desk.receive(one.tenantId, unread);
  await expect(refused).rejects.toMatchObject({
    ...{ status: 429, symbol: 'rate_limit_exceeded', retryAfterSeconds: 5 },
  });
  expect((await unread.next()).value).toMatchObject({ kind: 'file' });
  expect(await bench.transcription(other, wavFile(1))).toStartWith('job_');
  gate.resolve();
  for (const form of await Promise.all(arriving)) await bench.desk.discardForm(form);
  expect(await bench.transcription(one, wavFile(1))).toStartWith('job_');
});
