/** An object store that returns less or more than the requested range. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import type { ObjectStorage, StoredObject } from '../../src/jobs/object-storage.ts';
import { wavFile } from '../support/audio-files.ts';
import { JobHarness } from '../support/job-harness.ts';

let harness: JobHarness;
let caller: Caller;

beforeEach(async () => {
  harness = await JobHarness.open();
  caller = await harness.newCaller();
});

afterEach(() => harness.close());

/** Longer than the delay before the second attempt. */
const nextAttemptMs = 60_000;

/** Runs the waiting jobs with an object store that changes the objects with matching keys. */
async function runJobs(keys: RegExp, change: (object: StoredObject) => StoredObject) {
  const real = harness.storage;
  const open: ObjectStorage['open'] = async (key) => {
    const object = await real.open(key);
    return object && keys.test(key) ? change(object) : object;
  };
  const storage: ObjectStorage = {
    open,
    put: (key, chunks) => real.put(key, chunks),
    delete: (key) => real.delete(key),
    link: (key, options) => real.link(key, options),
  };
  await harness.runJobs(harness.worker({ storage }));
}

const unchanged = (object: StoredObject) => object;
const half = ({ bytes, body }: StoredObject) => ({ bytes, body: body.slice(0, bytes / 2) });

test('a truncated text is not synthesized; the next attempt reads it again', async () => {
  const id = await harness.speech(caller, 'Hello world.');
  await runJobs(/\.txt$/, half);
  expect(harness.runner.speechPieces).toEqual([]);
  expect(await harness.job(caller, id)).toMatchObject({ status: 'queued', costCredits: 0 });
  harness.now += nextAttemptMs;
  await runJobs(/^/, unchanged);
  expect(harness.runner.speechPieces.map(({ input }) => input)).toEqual(['Hello world.']);
  expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 24 });
});

test('a truncated piece is not joined; the next attempt reads it again, free of charge', async () => {
  // 2 pieces of 13 characters, at 2 credits per character.
  const id = await harness.speech(caller, 'Sentence one. Sentence two.');
  await runJobs(/\.wav$/, half);
  expect(await harness.job(caller, id)).toMatchObject({ status: 'queued', output: null });
  harness.now += nextAttemptMs;
  await runJobs(/^/, unchanged);
  expect(harness.runner.speechPieces).toHaveLength(2);
  const job = await harness.job(caller, id);
  expect(job).toMatchObject({ status: 'succeeded', costCredits: 52 });
  // One note for each of the 26 characters.
  expect(job.output?.bytes).toBe(wavFile(26).length);
});

test('a truncated recording is not sent to the provider', async () => {
  await harness.transcription(caller, wavFile(10));
  await runJobs(/\.wav$/, half);
  expect(harness.runner.transcriptionPieces).toEqual([]);
  harness.now += nextAttemptMs;
  await runJobs(/^/, unchanged);
  expect(harness.runner.transcriptionPieces.map(({ audio }) => audio.length)).toEqual([
    wavFile(10).length,
  ]);
});
