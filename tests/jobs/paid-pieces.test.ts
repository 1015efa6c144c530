/** A piece can be paid for and its result lost. A job that then ends tells of that charge too. */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError } from '../../src/core/errors.ts';
import { JobBench } from '../support/job-bench.ts';

/** Six pieces of 13 characters at most; the played provider takes two credits a character. */
const text = 'Number one. Number two. Number three. Number four. Number five. Number six.';
const credits = { one: 22, two: 22, three: 26, four: 24 };

let bench: JobBench;
let caller: Caller;

beforeEach(async () => {
  bench = await JobBench.open(13);
  caller = await bench.newCaller();
});
afterEach(() => bench.close());

/**
 * A job that waits for its retry: the provider has answered and was paid, and the store was away
 * when that should have been written down, behind so many pieces.
 */
async function losingPieces(spoken: string, after: number): Promise<string> {
  const id = await bench.speech(caller, spoken);
  const { queue } = bench.store.jobs;
  const addPiece = queue.addPiece.bind(queue);
  let written = 0;
  const spy = spyOn(queue, 'addPiece').mockImplementation(async (lease, piece) => {
    if (written === after) throw new Error('Connection terminated unexpectedly');
    written += 1;
    return addPiece(lease, piece);
  });
  await bench.workOff();
  spy.mockRestore();
  return id;
}

/** The key is revoked before the job is tried again. */
async function failWithoutKey(): Promise<void> {
  bench.runner.onCall = async () => {
    throw new GatewayError('invalid_api_key', 'The API key of this job has been deleted.');
  };
  bench.now += 15_000;
  await bench.workOff();
}

test('of the only piece', async () => {
  const id = await losingPieces('Number one.', 0);
  await failWithoutKey();
  const job = await bench.job(caller, id);
  expect(job).toMatchObject({ status: 'failed', piecesDone: 0, costCredits: credits.one });
  expect(bench.runner.charged).toBe(credits.one);
});

test('of those that were under way at once, behind one that is written down', async () => {
  const id = await losingPieces(text, 1);
  await failWithoutKey();
  const job = await bench.job(caller, id);
  const costCredits = credits.one + credits.two + credits.three + credits.four;
  expect(job).toMatchObject({ status: 'failed', piecesDone: 1, costCredits });
  expect(bench.runner.charged).toBe(costCredits);
});

test('of those that wait for a retry when the job is cancelled, and of none twice', async () => {
  const id = await losingPieces(text, 1);
  const costCredits = credits.one + credits.two + credits.three + credits.four;
  for (let times = 0; times < 2; times += 1) {
    const job = await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
    expect(job).toMatchObject({ status: 'cancelled', cost: costCredits });
  }
  expect(bench.runner.charged).toBe(costCredits);
});

test('of one that is under way when the job is cancelled, by whoever runs it', async () => {
  const id = await losingPieces('Number one.', 0);
  bench.now += 15_000;
  bench.runner.onCall = async () => {
    await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
  };
  await bench.workOff();
  expect(await bench.job(caller, id)).toMatchObject({
    status: 'cancelled',
    costCredits: credits.one,
  });
});

test('and one that was tried too often, and never paid for, still ends', async () => {
  const id = await bench.speech(caller, 'Number one.');
  // Every id that its piece may have is used up.
  const spy = spyOn(bench.runner, 'chargeOf').mockResolvedValue(0);
  for (const waitMs of [0, 15_000, 300_000]) {
    bench.now += waitMs;
    await bench.workOff();
  }
  spy.mockRestore();
  expect(await bench.job(caller, id)).toMatchObject({ status: 'failed', costCredits: 0 });
});
