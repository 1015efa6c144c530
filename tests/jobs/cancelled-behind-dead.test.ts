/** A cancelled job tells what its pieces cost, whether or not its worker lives to write it down. */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { JobBench } from '../support/job-bench.ts';

/** Three pieces of 13 characters at most; the played provider takes two credits a character. */
const text = 'Number one. Number two. Number three.';
const credits = { one: 22, two: 22, three: 26 };

let bench: JobBench;
let caller: Caller;

beforeEach(async () => {
  bench = await JobBench.open(13);
  caller = await bench.newCaller();
});
afterEach(() => bench.close());

async function costShown(id: string): Promise<number> {
  return (await bench.desk.show(caller.tenantId, id, 'http://g.test')).cost;
}

test('a worker that was killed before it had written down what was charged', async () => {
  const id = await bench.speech(caller, text);
  const { queue } = bench.store.jobs;
  const addPiece = queue.addPiece.bind(queue);
  const killed = Promise.withResolvers<void>();
  let unwritten = 0;
  const spy = spyOn(queue, 'addPiece').mockImplementation((lease, piece) => {
    if (piece.number === 0) return addPiece(lease, piece);
    unwritten += 1;
    if (unwritten === 2) killed.resolve();
    return new Promise(() => {});
  });
  await bench.worker().claim();
  await killed.promise;
  spy.mockRestore();
  await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
  expect(await costShown(id)).toBe(credits.one + credits.two + credits.three);
  expect(bench.runner.charged).toBe(credits.one + credits.two + credits.three);
});

test('one that was charged by the journal of the dead, after the job was cancelled', async () => {
  const id = await bench.speech(caller, text);
  const called = Promise.withResolvers<string>();
  bench.runner.onCall = ({ requestId }) => {
    called.resolve(requestId);
    return new Promise(() => {});
  };
  await bench.worker().claim();
  const requestId = await called.promise;
  await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
  expect(await costShown(id)).toBe(0);
  bench.runner.brokenOff(requestId, credits.one);
  expect(await costShown(id)).toBe(credits.one);
});

test('one that lives and tells it by itself is not counted twice', async () => {
  const id = await bench.speech(caller, text);
  bench.runner.onCall = async ({ requestId }) => {
    if (bench.runner.requestIds.length === 0) return;
    bench.runner.onCall = async () => {};
    await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
    expect(bench.runner.requestIds).not.toContain(requestId);
  };
  await bench.workOff();
  expect(bench.runner.charged).toBeGreaterThan(credits.one);
  expect(await costShown(id)).toBe(bench.runner.charged);
});
