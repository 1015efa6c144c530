/** Jobs started by a version of the gateway that splits texts differently. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError } from '../../src/core/errors.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import { wavFile } from '../support/audio-files.ts';
import { JobHarness } from '../support/job-harness.ts';

/** This version of the gateway splits the text after each sentence. */
const text = 'Number 🥇. Number two. Number three.';

let harness: JobHarness;
let caller: Caller;

beforeEach(async () => {
  harness = await JobHarness.open(13);
  caller = await harness.newCaller();
});
afterEach(() => harness.close());

/** Creates a job whose `pieces` the other version has finished, with one note per character. */
async function startedJob(pieces: ReadonlyMap<number, string>): Promise<string> {
  const id = await harness.speech(caller, text);
  const { queue, objects } = harness.store.jobs;
  const { now } = harness;
  const claimed = await queue.claim({ now, until: now + 60_000, exceptTenants: [] });
  if (!claimed) throw new Error("The job isn't waiting.");
  for (const [number, input] of pieces) {
    const objectKey = newObjectKey('wav');
    await objects.register(objectKey, id, now + 60_000);
    await harness.storage.put(objectKey, [wavFile(input.length)]);
    const units = [...input].length;
    const piece = { number, objectKey, costCredits: 7, units, provider: 'fake' };
    expect(await queue.addPiece(claimed.lease, piece)).toBe(true);
  }
  await queue.release(claimed.lease, { notBefore: 0, isAttempt: false });
  return id;
}

test('a job continues after its finished pieces without missing or repeating any text', async () => {
  const finished = ['Number', '🥇. Number'];
  const id = await startedJob(new Map(finished.entries()));
  await harness.runJobs();
  expect(harness.runner.speechPieces.map(({ input }) => input)).toEqual(['two.', 'Number three.']);
  const notes = [...finished, 'two.', 'Number three.'].join('').length;
  expect(await harness.output(caller, id)).toHaveLength(wavFile(notes).length);
  expect(await harness.job(caller, id)).toMatchObject({
    status: 'succeeded',
    piecesDone: 4,
    piecesTotal: 4,
    units: 6 + 9 + 4 + 13,
  });
});

test('a job continues after a piece of the same version that contains emoji', async () => {
  const id = await harness.speech(caller, text);
  harness.runner.onCall = async ({ provider }) => {
    if (provider !== null) throw new GatewayError('upstream_error', 'Not now.');
  };
  await harness.runJobs();
  harness.runner.onCall = async () => {};
  harness.now += 15_000;
  await harness.runJobs();
  const job = await harness.job(caller, id);
  expect(job).toMatchObject({ status: 'succeeded', piecesTotal: 3, units: 9 + 11 + 13 });
});

test('a job whose pieces are all finished is only joined', async () => {
  const id = await startedJob(new Map(['Number 🥇.', 'Number', 'two. Number', 'three.'].entries()));
  await harness.runJobs();
  expect(harness.runner.speechPieces).toEqual([]);
  expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', piecesTotal: 4 });
});

test('a job fails if the text of a missing piece is unknown', async () => {
  const id = await startedJob(
    new Map([
      [0, 'Number 🥇.'],
      [2, 'two. Number'],
    ]),
  );
  for (const waitMs of [0, 15_000, 300_000]) {
    harness.now += waitMs;
    await harness.runJobs();
  }
  expect(harness.runner.speechPieces).toEqual([]);
  expect(await harness.job(caller, id)).toMatchObject({
    status: 'failed',
    costCredits: 14,
    failure: { message: expect.stringContaining('split its text differently'), code: 500 },
  });
});

test('a missing piece is run if both versions split the text around it in the same way', async () => {
  const id = await startedJob(
    new Map([
      [0, 'Number 🥇.'],
      [2, 'Number three.'],
    ]),
  );
  await harness.runJobs();
  expect(harness.runner.speechPieces.map(({ input }) => input)).toEqual(['Number two.']);
  expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', piecesDone: 3 });
});
