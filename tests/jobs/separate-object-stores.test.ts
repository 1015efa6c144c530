/** Processes that share a database but store the files of jobs in separate folders. */
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { FileObjects } from '../../src/store/objects/files.ts';
import { newFolder, run, startGateway } from '../support/gateway.ts';
import { JobHarness } from '../support/job-harness.ts';
import { startPostgres } from '../support/postgres.ts';

const testMs = 120_000;
const advice =
  'Processes that share a database must share an object store. Set the objects option ' +
  '(OBJECTS_URL) to S3 or to a folder that all of them can access.';

test("a job whose text is in another process's folder is left to that process", async () => {
  const harness = await JobHarness.open();
  const caller = await harness.newCaller();
  const id = await harness.speech(caller, 'Short.');
  const here = new FileObjects(newFolder(), harness.links);
  for (const storage of [here, harness.storage]) {
    const worker = harness.worker({ storage });
    await worker.claim();
    await worker.idle();
    harness.now += 15_000;
  }
  expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded' });
  await harness.close();
});

test('a job whose text is never found fails free of charge with an error that names the setting', async () => {
  const harness = await JobHarness.open();
  const caller = await harness.newCaller();
  const id = await harness.speech(caller, 'Short.');
  const worker = harness.worker({ storage: new FileObjects(newFolder(), harness.links) });
  const message = `The input of the job isn't in this process's object store. ${advice}`;
  for (const waitMs of [0, 15_000, 300_000]) {
    harness.now += waitMs;
    expect((await harness.job(caller, id)).status).toBe('queued');
    await worker.claim();
    await worker.idle();
  }
  expect(await harness.job(caller, id)).toMatchObject({
    status: 'failed',
    costCredits: 0,
    failure: { message, type: 'internal_error', code: 500 },
  });
  expect([harness.runner.speechPieces, harness.runner.charged]).toEqual([[], 0]);
  // Each attempt is reported to the operator.
  expect(harness.failures.map((error) => error instanceof Error && error.message)).toEqual([
    message,
    message,
    message,
  ]);
  await harness.close();
});

test(
  'a start and the doctor warn if the objects folder is not the one that the last start used',
  async () => {
    const env = {
      DATABASE_URL: await (await startPostgres()).createDatabase(),
      TOLLGATE_SECRET_KEY: 'the same secret key on both machines',
    };
    const failedChecks = async (dataDir: string) => {
      const { stdout } = await run(['doctor'], { env, dataDir });
      return stdout.split('\n').filter((line) => line.startsWith('✗ objects'));
    };
    const warnings = (log: readonly Record<string, unknown>[]) =>
      log.filter(({ event }) => event === 'object_store_changed');
    const [one, other] = [newFolder(), newFolder()];

    expect(await failedChecks(one)).toEqual([]);
    await using first = await startGateway({ env, dataDir: one });
    expect(warnings(first.log())).toEqual([]);
    expect(await failedChecks(one)).toEqual([]);
    // The doctor creates nothing, so a second run finds the same problem.
    const moved = /^✗ objects +The object store has moved, or the last gateway started on this /;
    expect(await failedChecks(other)).toEqual([expect.stringMatching(moved)]);
    expect(await failedChecks(other)).toEqual([expect.stringContaining(advice)]);

    const { keys } = first;
    await using second = await startGateway({ env, dataDir: other, keys });
    expect(warnings(second.log())).toEqual([
      expect.objectContaining({
        level: 'warn',
        reason: `The last process on this database used a different object store. ${advice}`,
      }),
    ]);
    expect(await failedChecks(one)).toHaveLength(1);

    // A third process has its own data directory but shares the objects of the second.
    const shared = { ...env, OBJECTS_URL: `file:${join(other, 'objects')}` };
    await using third = await startGateway({ env: shared, dataDir: newFolder(), keys });
    expect(warnings(third.log())).toEqual([]);
  },
  testMs,
);
