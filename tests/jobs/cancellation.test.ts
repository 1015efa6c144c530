/** Cancellation of jobs, and the cost of canceled jobs in the API, lists, and webhooks. */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { WebhookSender } from '../../src/jobs/webhooks.ts';
import { JobHarness } from '../support/job-harness.ts';
import { waitUntil, within } from '../support/wait-until.ts';

/** 3 pieces of up to 13 characters, at 2 credits per character. */
const text = 'Number one. Number two. Number three.';
const credits = { one: 22, two: 22, three: 26 };

let harness: JobHarness;
let caller: Caller;

beforeEach(async () => {
  harness = await JobHarness.open(13);
  caller = await harness.newCaller();
});
afterEach(() => harness.close());

/** Returns the cost in the polled job, in the list, and in the webhook. */
async function reportedCosts(id: string): Promise<unknown[]> {
  const { service, store, storage } = harness;
  const polled = await service.show(caller.tenantId, id, 'http://g.test');
  const page = { limit: 1, offset: 0, status: null };
  const { data } = await service.list(caller.tenantId, page, 'http://g.test');
  const costs = [polled.cost, data[0]?.cost];
  const sender = new WebhookSender({
    queue: store.jobs.webhooks,
    jobs: store.jobs.store,
    storage,
    signer: { headers: async () => ({}) },
    async post(_url, { body }) {
      costs.push(JSON.parse(body).data.cost);
      // Report a failure, so that the webhook is sent again.
      return { ok: true, status: 503 };
    },
    baseUrl: () => 'http://g.test',
    onDropped: () => {},
    now: () => harness.now,
  });
  harness.now += 3_600_000;
  await sender.send();
  await sender.stop();
  return costs;
}

function createJob(): Promise<string> {
  return harness.speech(caller, text, { webhook_url: 'https://hooks.example/' });
}

test('a canceled job includes the cost of the pieces that a crashed worker ran', async () => {
  const id = await createJob();
  const { queue } = harness.store.jobs;
  const addPiece = queue.addPiece.bind(queue);
  const crashed = Promise.withResolvers<void>();
  let unstored = 0;
  const spy = spyOn(queue, 'addPiece').mockImplementation((lease, piece) => {
    if (piece.number === 0) return addPiece(lease, piece);
    unstored += 1;
    if (unstored === 2) crashed.resolve();
    return new Promise(() => {});
  });
  await harness.worker().claim();
  await within(crashed.promise, 'the crash');
  spy.mockRestore();
  const { cost } = await harness.service.cancel(caller.tenantId, id, 'http://g.test');
  const total = credits.one + credits.two + credits.three;
  expect(cost).toBe(total);
  expect(await reportedCosts(id)).toEqual([total, total, total]);
  expect(harness.runner.charged).toBe(total);
});

test('a canceled job includes the cost of a piece that a journal replay charges later', async () => {
  const id = await createJob();
  const called = Promise.withResolvers<string>();
  harness.runner.onCall = ({ requestId }) => {
    called.resolve(requestId);
    return new Promise(() => {});
  };
  await harness.worker().claim();
  const requestId = await within(called.promise, 'the call');
  await harness.service.cancel(caller.tenantId, id, 'http://g.test');
  expect(await reportedCosts(id)).toEqual([0, 0, 0]);
  await harness.runner.bookInterrupted(requestId, credits.one);
  expect(await reportedCosts(id)).toEqual([credits.one, credits.one, credits.one]);
});

test('a canceled job includes the cost of a piece once if its worker stores the piece later', async () => {
  const id = await createJob();
  harness.runner.onCall = async ({ requestId }) => {
    if (harness.runner.requestIds.length === 0) return;
    harness.runner.onCall = async () => {};
    await harness.service.cancel(caller.tenantId, id, 'http://g.test');
    expect(harness.runner.requestIds).not.toContain(requestId);
  };
  await harness.runJobs();
  expect(harness.runner.charged).toBeGreaterThan(credits.one);
  const { charged } = harness.runner;
  expect(await reportedCosts(id)).toEqual([charged, charged, charged]);
});

test('canceling a job does not affect other jobs of the same worker', async () => {
  const [canceled, other] = [
    await harness.speech(caller, 'One.'),
    await harness.speech(caller, 'Two.'),
  ];
  const gate = Promise.withResolvers<void>();
  harness.runner.onCall = async ({ signal }) => {
    const aborted = Promise.withResolvers<never>();
    signal.addEventListener('abort', () => aborted.reject(new Error('aborted')));
    await Promise.race([gate.promise, aborted.promise]);
  };
  const worker = harness.worker();
  harness.onCanceled = (jobId) => worker.abortCanceled(jobId);
  await worker.claim();
  await waitUntil(() => harness.runner.speechPieces.length >= 2);
  await harness.service.cancel(caller.tenantId, canceled, 'http://g.test');
  gate.resolve();
  await worker.idle();
  expect((await harness.job(caller, canceled)).status).toBe('cancelled');
  expect((await harness.job(caller, other)).status).toBe('succeeded');
});
