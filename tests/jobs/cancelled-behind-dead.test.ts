/** A cancelled job tells everybody what its pieces cost, even if its worker dies in between. */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { Secret } from '../../src/core/secret.ts';
import { WebhookSender, WebhookSigner } from '../../src/jobs/webhooks.ts';
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

/** As it is polled, as it is listed, and as its webhook tells it. */
async function costsTold(id: string): Promise<unknown[]> {
  const { desk, store, storage } = bench;
  const shown = await desk.show(caller.tenantId, id, 'http://g.test');
  const page = { limit: 1, offset: 0, status: null };
  const { data } = await desk.list(caller.tenantId, page, 'http://g.test');
  const told = [shown.cost, data[0]?.cost];
  const sender = new WebhookSender({
    queue: store.jobs.webhooks,
    jobs: store.jobs.book,
    storage,
    signer: new WebhookSigner(new Secret('a secret of the operator, long enough')),
    async post(_url, { body }) {
      told.push(JSON.parse(body).data.cost);
      // The receiver is away, so that the message is sent again.
      return { ok: true, status: 503 };
    },
    baseUrl: () => 'http://g.test',
    onDropped: () => {},
    now: () => bench.now,
  });
  bench.now += 3_600_000;
  await sender.send();
  await sender.stop();
  return told;
}

function createJob(): Promise<string> {
  return bench.speech(caller, text, { webhook_url: 'https://hooks.example/' });
}

test('a worker that was killed before it had written down what was charged', async () => {
  const id = await createJob();
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
  const { cost } = await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
  const all = credits.one + credits.two + credits.three;
  expect(cost).toBe(all);
  expect(await costsTold(id)).toEqual([all, all, all]);
  expect(bench.runner.charged).toBe(all);
});

test('one that was charged by the journal of the dead, after the job was cancelled', async () => {
  const id = await createJob();
  const called = Promise.withResolvers<string>();
  bench.runner.onCall = ({ requestId }) => {
    called.resolve(requestId);
    return new Promise(() => {});
  };
  await bench.worker().claim();
  const requestId = await called.promise;
  await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
  expect(await costsTold(id)).toEqual([0, 0, 0]);
  await bench.runner.brokenOff(requestId, credits.one);
  expect(await costsTold(id)).toEqual([credits.one, credits.one, credits.one]);
});

test('one that lives and tells it by itself is not counted twice', async () => {
  const id = await createJob();
  bench.runner.onCall = async ({ requestId }) => {
    if (bench.runner.requestIds.length === 0) return;
    bench.runner.onCall = async () => {};
    await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
    expect(bench.runner.requestIds).not.toContain(requestId);
  };
  await bench.workOff();
  expect(bench.runner.charged).toBeGreaterThan(credits.one);
  const { charged } = bench.runner;
  expect(await costsTold(id)).toEqual([charged, charged, charged]);
});
