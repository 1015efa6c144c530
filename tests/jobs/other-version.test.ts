/** A job that a version began whose rules cut texts elsewhere. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError } from '../../src/core/errors.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import { wavFile } from '../support/audio-files.ts';
import { JobBench } from '../support/job-bench.ts';

/** Cut behind its sentences today. */
const text = 'Number 🥇. Number two. Number three.';

let bench: JobBench;
let caller: Caller;

beforeEach(async () => {
  bench = await JobBench.open(13);
  caller = await bench.newCaller();
});
afterEach(() => bench.close());

/** The other version stops in good order, with these pieces done; one note for each character. */
async function begun(pieces: ReadonlyMap<number, string>): Promise<string> {
  const id = await bench.speech(caller, text);
  const { queue, objects } = bench.store.jobs;
  const { now } = bench;
  const claimed = await queue.claim({ now, until: now + 60_000, exceptTenants: [] });
  if (!claimed) throw new Error('The job waits for nobody.');
  for (const [number, spoken] of pieces) {
    const objectKey = newObjectKey('wav');
    await objects.register(objectKey, id, now + 60_000);
    await bench.storage.put(objectKey, [wavFile(spoken.length)]);
    const units = [...spoken].length;
    const piece = { number, objectKey, costCredits: 7, units, provider: 'played' };
    expect(await queue.addPiece(claimed.lease, piece)).toBe(true);
  }
  await queue.release(claimed.lease, { notBefore: 0, isAttempt: false });
  return id;
}

test('goes on behind the words that were spoken, with none lost and none twice', async () => {
  const spoken = ['Number', '🥇. Number'];
  const id = await begun(new Map(spoken.entries()));
  await bench.workOff();
  expect(bench.runner.spoken.map(({ input }) => input)).toEqual(['two.', 'Number three.']);
  const notes = [...spoken, 'two.', 'Number three.'].join('').length;
  expect(await bench.output(caller, id)).toHaveLength(wavFile(notes).length);
  expect(await bench.job(caller, id)).toMatchObject({
    status: 'succeeded',
    piecesDone: 4,
    piecesTotal: 4,
    units: 6 + 9 + 4 + 13,
  });
});

test('goes on behind one that counts characters as we do, emoji too', async () => {
  const id = await bench.speech(caller, text);
  bench.runner.onCall = async ({ provider }) => {
    if (provider !== null) throw new GatewayError('upstream_error', 'Not now.');
  };
  await bench.workOff();
  bench.runner.onCall = async () => {};
  bench.now += 15_000;
  await bench.workOff();
  const job = await bench.job(caller, id);
  expect(job).toMatchObject({ status: 'succeeded', piecesTotal: 3, units: 9 + 11 + 13 });
});

test('is only joined when all was spoken', async () => {
  const id = await begun(new Map(['Number 🥇.', 'Number', 'two. Number', 'three.'].entries()));
  await bench.workOff();
  expect(bench.runner.spoken).toEqual([]);
  expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', piecesTotal: 4 });
});

test('fails rather than speak words twice when nobody knows which are missing', async () => {
  const id = await begun(
    new Map([
      [0, 'Number 🥇.'],
      [2, 'two. Number'],
    ]),
  );
  for (const waitMs of [0, 15_000, 300_000]) {
    bench.now += waitMs;
    await bench.workOff();
  }
  expect(bench.runner.spoken).toEqual([]);
  expect(await bench.job(caller, id)).toMatchObject({
    status: 'failed',
    costCredits: 14,
    failure: { message: expect.stringContaining('cut its text elsewhere'), code: 500 },
  });
});

test('has its gap filled where both versions cut it alike', async () => {
  const id = await begun(
    new Map([
      [0, 'Number 🥇.'],
      [2, 'Number three.'],
    ]),
  );
  await bench.workOff();
  expect(bench.runner.spoken.map(({ input }) => input)).toEqual(['Number two.']);
  expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', piecesDone: 3 });
});
