import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError, notFound } from '../../src/core/errors.ts';
import { noteSeconds, wavFile } from '../support/audio-files.ts';
import { stalling } from '../support/job-gateway.ts';
import { JobHarness } from '../support/job-harness.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const minute = 60_000;
const hour = 60 * minute;

/** Split into 3 pieces with 13, 13, and 15 characters: 41 in total. */
const text = 'Sentence one. Sentence two. Sentence three.';
const pieces = ['Sentence one.', 'Sentence two.', 'Sentence three.'];

let harness: JobHarness;
let caller: Caller;

beforeEach(async () => {
  harness = await JobHarness.open();
  caller = await harness.newCaller();
});

afterEach(() => harness.close());

/** Simulates a killed process: the returned promise never settles. */
const never = () => new Promise<never>(() => {});

describe('a speech job', () => {
  test('synthesizes its text in pieces and joins them into one file', async () => {
    const id = await harness.speech(caller, text, { speed: 2, instructions: 'Softly.' });
    await harness.runJobs();
    const job = await harness.job(caller, id);
    expect(job).toMatchObject({ status: 'succeeded', piecesDone: 3, piecesTotal: 3, units: 41 });
    expect(job.costCredits).toBe(82);
    expect(harness.runner.charged).toBe(82);
    expect(harness.runner.speechPieces.map(({ input }) => input).toSorted()).toEqual(
      pieces.toSorted(),
    );
    expect(harness.runner.speechPieces[0]).toMatchObject({
      ...{ tenantId: caller.tenantId, keyId: 'key_of_caller', model: 'test/speech' },
      ...{ voice: 'v', format: 'wav', speed: 2, instructions: 'Softly.' },
    });
    const file = await harness.output(caller, id);
    const { format } = await parseBuffer(file, { mimeType: 'audio/wav' }, { duration: true });
    expect(format.duration).toBeCloseTo(41 * noteSeconds, 6);
    expect(job.output?.bytes).toBe(file.length);
  });

  test('uses one provider for all pieces and a UUID for each piece', async () => {
    await harness.speech(caller, text);
    await harness.runJobs();
    expect(harness.runner.speechPieces.map(({ provider }) => provider)).toEqual([
      null,
      'fake',
      'fake',
    ]);
    const ids = harness.runner.speechPieces.map(({ requestId }) => requestId);
    expect(new Set(ids).size).toBe(3);
    const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    for (const id of ids) expect(id).toMatch(uuid);
  });

  test('joins the pieces in text order, whichever finishes first', async () => {
    const gate = Promise.withResolvers<void>();
    harness.runner.onCall = async (piece) => {
      if ('input' in piece && piece.input === 'Sentence two.') await gate.promise;
      if ('input' in piece && piece.input === 'Sentence three.') gate.resolve();
    };
    harness.runner.synthesize = ({ input }) => Buffer.from(input);
    const id = await harness.speech(caller, text, { response_format: 'pcm' });
    await harness.runJobs();
    expect((await harness.output(caller, id)).toString()).toBe(pieces.join(''));
  });

  test('leaves only its output in storage, and the output expires after a day', async () => {
    const id = await harness.speech(caller, text);
    await harness.runJobs();
    const { output } = await harness.job(caller, id);
    await harness.sweep();
    expect(harness.storedObjects()).toEqual([output?.key ?? '']);
    harness.now += 24 * hour;
    await harness.sweep();
    expect(harness.storedObjects()).toEqual([]);
    expect((await harness.job(caller, id)).status).toBe('expired');
  });

  test('fails with the error message and without a retry when the caller caused the error', async () => {
    harness.runner.onCall = async () => {
      throw new GatewayError('insufficient_credits', 'Needs 26 credits, has 3.');
    };
    const id = await harness.speech(caller, text);
    await harness.runJobs();
    expect((await harness.job(caller, id)).failure).toEqual({
      message: 'Needs 26 credits, has 3.',
      type: 'insufficient_credits',
      code: 402,
    });
    expect(harness.runner.speechPieces.length).toBe(1);
    await harness.sweep();
    expect(harness.storedObjects()).toEqual([]);
  });

  test('is attempted 3 times, with growing delays, when the provider fails', async () => {
    harness.runner.onCall = async () => {
      throw new GatewayError('upstream_error', 'Not now.');
    };
    const id = await harness.speech(caller, text);
    const worker = harness.worker();
    for (const [waitMs, tries] of [
      [0, 1],
      [14_999, 1],
      [1, 2],
      [299_999, 2],
      [1, 3],
    ] as const) {
      harness.now += waitMs;
      await harness.runJobs(worker);
      expect(harness.runner.speechPieces.length).toBe(tries);
    }
    expect((await harness.job(caller, id)).failure).toMatchObject({
      message: 'Not now.',
      code: 502,
    });
    harness.now += hour;
    await harness.runJobs(worker);
    expect(harness.runner.speechPieces.length).toBe(3);
  });

  test('gets 3 new attempts after it has finished a piece', async () => {
    let failing = pieces[0];
    harness.runner.onCall = async (piece) => {
      const fails = 'input' in piece && piece.input === failing;
      if (fails) throw new GatewayError('upstream_error', 'Not now.');
    };
    const id = await harness.speech(caller, text);
    const worker = harness.worker();
    for (const waitMs of [0, 15_000]) {
      harness.now += waitMs;
      await harness.runJobs(worker);
    }
    failing = pieces[1];
    harness.now += 300_000;
    await harness.runJobs(worker);
    // The third attempt also failed, but only after it had finished the first piece.
    expect(await harness.job(caller, id)).toMatchObject({ status: 'queued', piecesDone: 2 });
    for (const waitMs of [15_000, 300_000]) {
      harness.now += waitMs;
      expect((await harness.job(caller, id)).status).toBe('queued');
      await harness.runJobs(worker);
    }
    expect((await harness.job(caller, id)).failure).toMatchObject({ message: 'Not now.' });
  });

  test('stays queued for another process if this process does not know its model', async () => {
    harness.runner.onCall = async () => {
      throw notFound('There is no model "a/b".', 'model');
    };
    const id = await harness.speech(caller, text);
    await harness.runJobs(harness.worker());
    expect((await harness.job(caller, id)).status).toBe('queued');
    harness.runner.onCall = async () => {};
    harness.now += 15_000;
    await harness.runJobs(harness.worker());
    expect((await harness.job(caller, id)).status).toBe('succeeded');
  });

  test('waits as long as retryAfterSeconds says before its next attempt', async () => {
    harness.runner.onCall = async () => {
      throw new GatewayError('rate_limit_exceeded', 'Slowly.', { retryAfterSeconds: 90 });
    };
    await harness.speech(caller, text);
    const worker = harness.worker();
    await harness.runJobs(worker);
    harness.now += 89_999;
    await harness.runJobs(worker);
    expect(harness.runner.speechPieces.length).toBe(1);
    harness.now += 1;
    await harness.runJobs(worker);
    expect(harness.runner.speechPieces.length).toBe(2);
  });

  test('continues with the missing pieces after a failure and is not charged twice', async () => {
    let isBroken = true;
    harness.runner.onCall = async (piece) => {
      const isThird = 'input' in piece && piece.input === 'Sentence three.';
      if (isThird && isBroken) throw new GatewayError('upstream_error', 'Not now.');
    };
    const id = await harness.speech(caller, text);
    const worker = harness.worker();
    await harness.runJobs(worker);
    expect(await harness.job(caller, id)).toMatchObject({ status: 'queued', piecesDone: 2 });
    isBroken = false;
    harness.now += 15_000;
    await harness.runJobs(worker);
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(harness.runner.speechPieces.length).toBe(4);
    expect(harness.runner.charged).toBe(82);
  });

  test('starts no further pieces after a piece was rejected', async () => {
    const rejected = Promise.withResolvers<void>();
    harness.runner.onCall = async (piece) => {
      if (!('input' in piece) || piece.input === 'Sentence 0.') return;
      if (piece.input !== 'Sentence 1.') return rejected.promise.then(() => Bun.sleep(0));
      rejected.resolve();
      throw new GatewayError('invalid_request_error', 'Not this.');
    };
    const sentences = Array.from({ length: 9 }, (_, number) => `Sentence ${number}.`);
    const id = await harness.speech(caller, sentences.join(' '));
    await harness.runJobs();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'failed', piecesDone: 3 });
    expect(harness.runner.speechPieces.length).toBe(4);
  });

  test('fails with the number of the piece that cannot be joined', async () => {
    harness.runner.synthesize = ({ input }) =>
      input === 'Sentence two.' ? Buffer.from('<html>') : wavFile(1);
    const id = await harness.speech(caller, text);
    await harness.runJobs();
    expect((await harness.job(caller, id)).failure).toEqual({
      message: "The audio can't be joined: the provider's response for piece 2 isn't WAV.",
      type: 'upstream_error',
      code: 502,
    });
  });

  test('fails before more pieces are charged if the first one cannot be joined', async () => {
    harness.runner.synthesize = () => Buffer.from('<html>');
    const id = await harness.speech(caller, text);
    await harness.runJobs();
    const first = { status: 'failed', costCredits: 26, piecesDone: 1 };
    expect(await harness.job(caller, id)).toMatchObject(first);
    expect(harness.runner.charged).toBe(26);
  });
});

describe('a crashed worker', () => {
  /** Runs a second worker after the lease of the first has expired. */
  async function runSuccessor(): Promise<void> {
    harness.runner.onCall = async () => {};
    harness.now += minute;
    await harness.runJobs();
  }

  test('that had only claimed a job leaves it to another worker', async () => {
    const id = await harness.speech(caller, text);
    const { queue } = harness.store.jobs;
    await queue.claim({ now: harness.now, until: harness.now + minute, exceptTenants: [] });
    await harness.runJobs();
    expect((await harness.job(caller, id)).status).toBe('running');
    await runSuccessor();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(harness.runner.speechPieces.length).toBe(3);
  });

  test('that was waiting for a call leaves the job to another worker, which repeats the call', async () => {
    const id = await harness.speech(caller, text);
    harness.runner.onCall = never;
    await harness.worker().claim();
    await untilCalls(1);
    await runSuccessor();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(harness.runner.speechPieces.length).toBe(4);
    expect(harness.runner.charged).toBe(82);
  });

  test('whose call was recorded as free leaves the piece to a worker that uses a new id', async () => {
    const id = await harness.speech(caller, text);
    harness.runner.onCall = never;
    await harness.worker().claim();
    await untilCalls(1);
    const [lost] = harness.runner.speechPieces;
    harness.runner.recordFree(lost?.requestId ?? '');
    await runSuccessor();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(harness.runner.charged).toBe(82);
    expect(harness.runner.requestIds.length).toBe(4);
  });

  test.each(['setPieces', 'addPiece', 'finish'] as const)(
    'does not make the tenant pay twice if it crashed before %s',
    async (step) => {
      const id = await harness.speech(caller, text);
      const reached = Promise.withResolvers<void>();
      const queue = stalling(harness.store.jobs.queue, step, reached.resolve);
      await harness.worker({ queue }).claim();
      await within(reached.promise, 'the step');
      await runSuccessor();
      const job = await harness.job(caller, id);
      expect(job).toMatchObject({ status: 'succeeded', costCredits: 82, piecesDone: 3 });
      expect(harness.runner.charged).toBe(82);
      const calls = Map.groupBy(harness.runner.speechPieces, ({ input }) => input);
      expect(Math.max(...[...calls.values()].map(({ length }) => length))).toBeLessThanOrEqual(2);
      expect((await harness.output(caller, id)).length).toBe(wavFile(41).length);
      // The sweep also deletes the objects of the crashed worker.
      harness.now += 25 * hour;
      await harness.sweep();
      expect(harness.storedObjects()).toEqual([]);
    },
  );

  test('cannot change the job if it resumes after it lost the lease', async () => {
    const id = await harness.speech(caller, text);
    const gate = Promise.withResolvers<void>();
    harness.runner.onCall = () => gate.promise;
    const frozen = harness.worker();
    await frozen.claim();
    await untilCalls(1);
    await runSuccessor();
    const before = await harness.job(caller, id);
    gate.resolve();
    await frozen.idle();
    expect(await harness.job(caller, id)).toEqual(before);
    expect(before).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(harness.runner.charged).toBe(82);
    expect(harness.failures).toEqual([]);
  });

  test('causes the job to fail after the third crash, and the queue continues', async () => {
    const poison = await harness.speech(caller, 'Poison.');
    const { queue } = harness.store.jobs;
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await queue.claim({ now: harness.now, until: harness.now + minute, exceptTenants: [] });
      harness.now += minute;
    }
    const good = await harness.speech(caller, 'Good.');
    await harness.runJobs();
    expect((await harness.job(caller, poison)).failure).toEqual({
      message: 'The job failed: 3 workers stopped while running it.',
      type: 'internal_error',
      code: 500,
    });
    expect((await harness.job(caller, good)).status).toBe('succeeded');
    expect(harness.runner.speechPieces.map(({ input }) => input)).toEqual(['Good.']);
  });

  async function untilCalls(calls: number): Promise<void> {
    await waitUntil(() => harness.runner.speechPieces.length >= calls);
  }
});

describe('JobWorker', () => {
  /** Makes calls wait until they are aborted or released. */
  function hold() {
    const gate = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    harness.runner.onCall = async ({ signal }) => {
      started.resolve();
      const aborted = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => aborted.reject(new Error('aborted')));
      await Promise.race([gate.promise, aborted.promise]);
    };
    return { started: started.promise, release: () => gate.resolve() };
  }

  /** Returns a job whose first call has started, and its worker. */
  async function startJob(input = text) {
    const id = await harness.speech(caller, input);
    const call = hold();
    const worker = harness.worker();
    await worker.claim();
    await within(call.started, 'the call to start');
    return { id, call, worker };
  }

  test('keeps its job by renewing the lease', async () => {
    const { id, call, worker } = await startJob('Short.');
    for (let round = 0; round < 4; round += 1) {
      harness.now += 45_000;
      await worker.renew();
      await harness.worker().claim();
    }
    call.release();
    await worker.idle();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', attempts: 1 });
    expect(harness.runner.speechPieces.length).toBe(1);
  });

  test('keeps its job and does not run it twice when the clock jumps ahead', async () => {
    const { id, call, worker } = await startJob('Short.');
    harness.now += 2 * hour;
    await worker.claim();
    await harness.worker().claim();
    call.release();
    await worker.idle();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', attempts: 1 });
    expect(harness.runner.speechPieces.length).toBe(1);
  });

  test('keeps its job while the store is unreachable, until the lease expires', async () => {
    const [brief, long] = [await startJob('Short.'), await startJob('Short.')];
    const renewal = spyOn(harness.store.jobs.queue, 'renew').mockRejectedValue(
      new Error('unavailable'),
    );
    harness.now += 45_000;
    await brief.worker.renew();
    brief.call.release();
    await brief.worker.idle();
    expect(await harness.job(caller, brief.id)).toMatchObject({ status: 'succeeded', attempts: 1 });
    harness.now += 15_000;
    await long.worker.renew();
    renewal.mockRestore();
    await long.worker.idle();
    expect(harness.runner.speechPieces.map(({ signal }) => signal.reason)).toEqual([
      undefined,
      'lost',
    ]);
  });

  test('stops a job canceled by another process, without reporting a failure', async () => {
    const { id, worker } = await startJob();
    await harness.service.cancel(caller.tenantId, id, 'http://g.test');
    await worker.renew();
    await worker.idle();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'cancelled', failure: null });
    expect(harness.failures).toEqual([]);
    await harness.sweep();
    expect(harness.storedObjects()).toEqual([]);
  });

  test('aborts a piece with the reason: canceled, or lost to another worker', async () => {
    const [mine, theirs] = [await startJob(), await startJob()];
    await harness.service.cancel(caller.tenantId, mine.id, 'http://g.test');
    await mine.worker.renew();
    harness.now += 61_000;
    const { now } = harness;
    await harness.store.jobs.queue.claim({ now, until: now + minute, exceptTenants: [] });
    await theirs.worker.renew();
    await Promise.all([mine.worker.idle(), theirs.worker.idle()]);
    const reasons = harness.runner.speechPieces.map(({ signal }) => signal.reason);
    expect(reasons).toEqual(['cancelled', 'lost']);
  });

  test('aborts a job canceled by the same process and adds its cost', async () => {
    const { id, worker } = await startJob();
    harness.onCanceled = (jobId) => worker.abortCanceled(jobId);
    const [running] = harness.runner.speechPieces;
    await harness.runner.bookInterrupted(running?.requestId ?? '', 7);
    await harness.service.cancel(caller.tenantId, id, 'http://g.test');
    await worker.idle();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'cancelled', costCredits: 7 });
    expect([harness.runner.speechPieces.length, harness.runner.charged]).toEqual([1, 7]);
  });

  test('adds the cost of a piece that finishes after the job was canceled', async () => {
    const { id, call, worker } = await startJob();
    await harness.service.cancel(caller.tenantId, id, 'http://g.test');
    call.release();
    await worker.idle();
    // 2 credits for each of the 13 characters of the first piece.
    const canceled = { status: 'cancelled', costCredits: 26, units: 13 };
    expect(await harness.job(caller, id)).toMatchObject(canceled);
    expect(harness.runner.charged).toBe(26);
    await harness.sweep();
    expect(harness.storedObjects()).toEqual([]);
  });

  test('does not repeat the call when storing a piece fails once', async () => {
    const id = await harness.speech(caller, 'Short.');
    const connectionError = new Error('Connection terminated unexpectedly');
    spyOn(harness.store.jobs.queue, 'addPiece').mockRejectedValueOnce(connectionError);
    await harness.runJobs(harness.worker());
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 12 });
    expect(harness.runner.speechPieces).toHaveLength(1);
  });

  test('stores no output for a job that is canceled while its pieces are joined', async () => {
    const id = await harness.speech(caller, 'Short.');
    const { objects } = harness.store.jobs;
    const worker = harness.worker({
      objects: {
        async register(key, jobId, deleteAt) {
          const { piecesDone } = await harness.job(caller, jobId);
          if (piecesDone > 0) await harness.service.cancel(caller.tenantId, jobId, 'http://g.test');
          await objects.register(key, jobId, deleteAt);
        },
        releaseUnused: (key) => objects.releaseUnused(key),
      },
    });
    await harness.runJobs(worker);
    expect(await harness.job(caller, id)).toMatchObject({ status: 'cancelled', costCredits: 12 });
    expect(harness.storedObjects()).not.toEqual([]);
    await harness.sweep();
    expect(harness.storedObjects()).toEqual([]);
  });

  test('fails a job that runs for more than 6 hours', async () => {
    const { id, worker } = await startJob();
    harness.now += 6 * hour + 1;
    await worker.renew();
    await worker.idle();
    expect((await harness.job(caller, id)).failure).toEqual({
      message: "The job didn't finish within 6 hours.",
      type: 'upstream_error',
      code: 504,
    });
  });

  test('returns its jobs to the queue when stopped, and another worker continues', async () => {
    const { id, worker } = await startJob();
    await worker.stop(10);
    expect(await harness.job(caller, id)).toMatchObject({ status: 'queued', attempts: 0 });
    await worker.claim();
    expect((await harness.job(caller, id)).status).toBe('queued');
    harness.runner.onCall = async () => {};
    await harness.runJobs();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
  });

  test('finishes running pieces when it is stopped, but starts no new pieces', async () => {
    const { id, call, worker } = await startJob();
    const stopped = worker.stop(60_000);
    call.release();
    await stopped;
    expect(await harness.job(caller, id)).toMatchObject({ status: 'queued', piecesDone: 1 });
    expect(harness.runner.speechPieces.length).toBe(1);
    await harness.runJobs();
    expect(await harness.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(harness.runner.speechPieces.length).toBe(3);
  });

  test('starts the job of a third tenant while two tenants have many slow jobs', async () => {
    const call = hold();
    const worker = harness.worker();
    const tenants = [caller, await harness.newCaller()];
    for (const tenant of tenants) {
      for (let index = 0; index < 4; index += 1) await harness.speech(tenant, 'Slow.');
      await worker.claim();
    }
    for (let index = 0; index < 2; index += 1) {
      const tenant = await harness.newCaller();
      tenants.push(tenant);
      await harness.speech(tenant, 'Later.');
      await harness.speech(tenant, 'Later.');
    }
    await worker.claim();
    const page = { limit: 9, offset: 0, status: 'running' } as const;
    const running = async ({ tenantId }: Caller) =>
      (await harness.store.jobs.store.list(tenantId, page, Date.now())).length;
    expect(await Promise.all(tenants.map(running))).toEqual([3, 1, 1, 1]);
    call.release();
    await worker.idle();
  });

  test('reports the cause of an internal error to the operator, not to the client', async () => {
    harness.runner.onCall = async () => {
      throw new Error('A bug of ours.');
    };
    const id = await harness.speech(caller, 'Short.');
    const worker = harness.worker();
    for (const waitMs of [0, 15_000, 300_000]) {
      harness.now += waitMs;
      await harness.runJobs(worker);
    }
    expect((await harness.job(caller, id)).failure).toMatchObject({
      type: 'internal_error',
      code: 500,
    });
    expect(JSON.stringify(await harness.job(caller, id))).not.toContain('bug');
    expect(harness.failures).toEqual(Array(3).fill(new Error('A bug of ours.')));
  });
});
