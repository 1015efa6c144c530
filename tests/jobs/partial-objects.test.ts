/** An object storage that gives less than was asked for, or more. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import type { ObjectStorage, StoredObject } from '../../src/jobs/objects.ts';
import { wavFile } from '../support/audio-files.ts';
import { JobBench } from '../support/job-bench.ts';

let bench: JobBench;
let caller: Caller;

beforeEach(async () => {
  bench = await JobBench.open();
  caller = await bench.newCaller();
});

afterEach(() => bench.close());

/** Longer than a failed job waits for its next attempt. */
const nextAttemptMs = 60_000;

/** Works off what waits, with a storage that changes what it gives for this key. */
async function workOff(which: RegExp, change: (object: StoredObject) => StoredObject) {
  const real = bench.storage;
  const open: ObjectStorage['open'] = async (key) => {
    const object = await real.open(key);
    return object && which.test(key) ? change(object) : object;
  };
  const storage: ObjectStorage = {
    open,
    put: (key, chunks) => real.put(key, chunks),
    delete: (key) => real.delete(key),
    link: (key, wish) => real.link(key, wish),
  };
  await bench.workOff(bench.worker({ storage }));
}

const asItIs = (object: StoredObject) => object;
const half = ({ bytes, body }: StoredObject) => ({ bytes, body: body.slice(0, bytes / 2) });

test('half of a text is not spoken; the next attempt speaks all of it', async () => {
  const id = await bench.speech(caller, 'Hello world.');
  await workOff(/\.txt$/, half);
  expect(bench.runner.spoken).toEqual([]);
  expect(await bench.job(caller, id)).toMatchObject({ status: 'queued', costCredits: 0 });
  bench.now += nextAttemptMs;
  await workOff(/^/, asItIs);
  expect(bench.runner.spoken.map(({ input }) => input)).toEqual(['Hello world.']);
  expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 24 });
});

test('half of a piece is not joined; it is read again, and not paid for twice', async () => {
  // Two pieces of 13 characters, at two credits a character.
  const id = await bench.speech(caller, 'Sentence one. Sentence two.');
  await workOff(/\.wav$/, half);
  expect(await bench.job(caller, id)).toMatchObject({ status: 'queued', output: null });
  bench.now += nextAttemptMs;
  await workOff(/^/, asItIs);
  expect(bench.runner.spoken).toHaveLength(2);
  const job = await bench.job(caller, id);
  expect(job).toMatchObject({ status: 'succeeded', costCredits: 52 });
  // A note for each of the 26 characters.
  expect(job.output?.bytes).toBe(wavFile(26).length);
});

test('half of a recording is not sent', async () => {
  await bench.transcription(caller, wavFile(10));
  await workOff(/\.wav$/, half);
  expect(bench.runner.heard).toEqual([]);
  bench.now += nextAttemptMs;
  await workOff(/^/, asItIs);
  expect(bench.runner.heard.map(({ audio }) => audio.length)).toEqual([wavFile(10).length]);
});
