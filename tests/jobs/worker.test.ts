import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test';
import { parseBuffer } from 'music-metadata';
import type { Caller } from '../../src/core/caller.ts';
import { GatewayError, notFound } from '../../src/core/errors.ts';
import { mp3File, noteSeconds, wavFile } from '../support/audio-files.ts';
import { JobBench } from '../support/job-bench.ts';
import { stalling } from '../support/job-story.ts';

const minute = 60_000;
const hour = 60 * minute;

/** Three pieces of 20 characters at most: 13, 13 and 15 characters, 41 in all. */
const text = 'Sentence one. Sentence two. Sentence three.';
const pieces = ['Sentence one.', 'Sentence two.', 'Sentence three.'];

let bench: JobBench;
let caller: Caller;

beforeEach(async () => {
  bench = await JobBench.open();
  caller = await bench.newCaller();
});

afterEach(() => bench.close());

/** Stands for kill -9: whatever this waits for never comes. */
const never = () => new Promise<never>(() => {});

describe('a speech job', () => {
  test('speaks its text piece by piece and joins one file of the whole length', async () => {
    const id = await bench.speech(caller, text, { speed: 2, instructions: 'Softly.' });
    await bench.workOff();
    const job = await bench.job(caller, id);
    expect(job).toMatchObject({ status: 'succeeded', piecesDone: 3, piecesTotal: 3, units: 41 });
    expect(job.costCredits).toBe(82);
    expect(bench.runner.charged).toBe(82);
    expect(bench.runner.spoken.map(({ input }) => input).toSorted()).toEqual(pieces.toSorted());
    expect(bench.runner.spoken[0]).toMatchObject({
      ...{ tenantId: caller.tenantId, keyId: 'key_of_the_caller', model: 'played/speak' },
      ...{ voice: 'v', format: 'wav', speed: 2, instructions: 'Softly.' },
    });
    const file = await bench.output(caller, id);
    const { format } = await parseBuffer(file, { mimeType: 'audio/wav' }, { duration: true });
    expect(format.duration).toBeCloseTo(41 * noteSeconds, 6);
    expect(job.output?.bytes).toBe(file.length);
  });

  test('keeps the provider of its first piece, and gives every piece its UUID', async () => {
    await bench.speech(caller, text);
    await bench.workOff();
    expect(bench.runner.spoken.map(({ provider }) => provider)).toEqual([null, 'played', 'played']);
    const ids = bench.runner.spoken.map(({ requestId }) => requestId);
    expect(new Set(ids).size).toBe(3);
    const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
    for (const id of ids) expect(id).toMatch(uuid);
  });

  test('puts the pieces in order whichever ends first', async () => {
    const gate = Promise.withResolvers<void>();
    bench.runner.onCall = async (piece) => {
      if ('input' in piece && piece.input === 'Sentence two.') await gate.promise;
      if ('input' in piece && piece.input === 'Sentence three.') gate.resolve();
    };
    bench.runner.speak = ({ input }) => Buffer.from(input);
    const id = await bench.speech(caller, text, { response_format: 'pcm' });
    await bench.workOff();
    expect((await bench.output(caller, id)).toString()).toBe(pieces.join(''));
  });

  test('leaves nothing but its output, and after its day not even that', async () => {
    const id = await bench.speech(caller, text);
    await bench.workOff();
    const { output } = await bench.job(caller, id);
    await bench.sweep();
    expect(bench.stored()).toEqual([output?.key ?? '']);
    bench.now += 24 * hour;
    await bench.sweep();
    expect(bench.stored()).toEqual([]);
    expect((await bench.job(caller, id)).status).toBe('expired');
  });

  test('that a provider refuses fails at once, in the words of the refusal', async () => {
    bench.runner.onCall = async () => {
      throw new GatewayError('insufficient_credits', 'Needs 26 credits, has 3.');
    };
    const id = await bench.speech(caller, text);
    await bench.workOff();
    expect((await bench.job(caller, id)).failure).toEqual({
      message: 'Needs 26 credits, has 3.',
      type: 'insufficient_credits',
      code: 402,
    });
    expect(bench.runner.spoken.length).toBe(1);
    await bench.sweep();
    expect(bench.stored()).toEqual([]);
  });

  test('that a provider cannot serve now is tried three times, later and later', async () => {
    bench.runner.onCall = async () => {
      throw new GatewayError('upstream_error', 'Not now.');
    };
    const id = await bench.speech(caller, text);
    const worker = bench.worker();
    for (const [waitMs, tries] of [
      [0, 1],
      [14_999, 1],
      [1, 2],
      [299_999, 2],
      [1, 3],
    ] as const) {
      bench.now += waitMs;
      await bench.workOff(worker);
      expect(bench.runner.spoken.length).toBe(tries);
    }
    expect((await bench.job(caller, id)).failure).toMatchObject({ message: 'Not now.', code: 502 });
    bench.now += hour;
    await bench.workOff(worker);
    expect(bench.runner.spoken.length).toBe(3);
  });

  test('that got on a little has all its attempts again', async () => {
    let toFail = pieces[0];
    bench.runner.onCall = async (piece) => {
      const isIt = 'input' in piece && piece.input === toFail;
      if (isIt) throw new GatewayError('upstream_error', 'Not now.');
    };
    const id = await bench.speech(caller, text);
    const worker = bench.worker();
    for (const waitMs of [0, 15_000]) {
      bench.now += waitMs;
      await bench.workOff(worker);
    }
    toFail = pieces[1];
    bench.now += 300_000;
    await bench.workOff(worker);
    // The third attempt failed too, but behind the first piece.
    expect(await bench.job(caller, id)).toMatchObject({ status: 'queued', piecesDone: 2 });
    for (const waitMs of [15_000, 300_000]) {
      bench.now += waitMs;
      expect((await bench.job(caller, id)).status).toBe('queued');
      await bench.workOff(worker);
    }
    expect((await bench.job(caller, id)).failure).toMatchObject({ message: 'Not now.' });
  });

  test('whose model is unknown here is left to a process that knows it', async () => {
    bench.runner.onCall = async () => {
      throw notFound('There is no model "a/b".', 'model');
    };
    const id = await bench.speech(caller, text);
    await bench.workOff(bench.worker());
    expect((await bench.job(caller, id)).status).toBe('queued');
    bench.runner.onCall = async () => {};
    bench.now += 15_000;
    await bench.workOff(bench.worker());
    expect((await bench.job(caller, id)).status).toBe('succeeded');
  });

  test('waits as long as it is told to', async () => {
    bench.runner.onCall = async () => {
      throw new GatewayError('rate_limit_exceeded', 'Slowly.', { retryAfterSeconds: 90 });
    };
    await bench.speech(caller, text);
    const worker = bench.worker();
    await bench.workOff(worker);
    bench.now += 89_999;
    await bench.workOff(worker);
    expect(bench.runner.spoken.length).toBe(1);
    bench.now += 1;
    await bench.workOff(worker);
    expect(bench.runner.spoken.length).toBe(2);
  });

  test('goes on where it stood after a failure, and pays for nothing twice', async () => {
    let isBroken = true;
    bench.runner.onCall = async (piece) => {
      const isThird = 'input' in piece && piece.input === 'Sentence three.';
      if (isThird && isBroken) throw new GatewayError('upstream_error', 'Not now.');
    };
    const id = await bench.speech(caller, text);
    const worker = bench.worker();
    await bench.workOff(worker);
    expect(await bench.job(caller, id)).toMatchObject({ status: 'queued', piecesDone: 2 });
    isBroken = false;
    bench.now += 15_000;
    await bench.workOff(worker);
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(bench.runner.spoken.length).toBe(4);
    expect(bench.runner.charged).toBe(82);
  });

  test('has no further piece begun, and paid for, once one was refused', async () => {
    const refused = Promise.withResolvers<void>();
    bench.runner.onCall = async (piece) => {
      if (!('input' in piece) || piece.input === 'Sentence 0.') return;
      if (piece.input !== 'Sentence 1.') return refused.promise.then(() => Bun.sleep(0));
      refused.resolve();
      throw new GatewayError('invalid_request_error', 'Not this.');
    };
    const words = Array.from({ length: 9 }, (_, number) => `Sentence ${number}.`);
    const id = await bench.speech(caller, words.join(' '));
    await bench.workOff();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'failed', piecesDone: 3 });
    expect(bench.runner.spoken.length).toBe(4);
  });

  test('whose pieces do not fit together fails, saying which', async () => {
    bench.runner.speak = ({ input }) =>
      input === 'Sentence two.' ? Buffer.from('<html>') : wavFile(1);
    const id = await bench.speech(caller, text);
    await bench.workOff();
    expect((await bench.job(caller, id)).failure).toEqual({
      message: 'Piece 2 came back as something else than WAV, so the pieces cannot be joined.',
      type: 'upstream_error',
      code: 502,
    });
  });

  test('whose first piece cannot be joined to others fails before they are paid for', async () => {
    bench.runner.speak = () => Buffer.from('<html>');
    const id = await bench.speech(caller, text);
    await bench.workOff();
    const first = { status: 'failed', costCredits: 26, piecesDone: 1 };
    expect(await bench.job(caller, id)).toMatchObject(first);
    expect(bench.runner.charged).toBe(26);
  });
});

describe('a worker that dies', () => {
  /** The second worker comes when the lease of the first is over. */
  async function successor(): Promise<void> {
    bench.runner.onCall = async () => {};
    bench.now += minute;
    await bench.workOff();
  }

  test('at the claim is followed by another, which does the whole job', async () => {
    const id = await bench.speech(caller, text);
    const { queue } = bench.store.jobs;
    await queue.claim({ now: bench.now, until: bench.now + minute, exceptTenants: [] });
    await bench.workOff();
    expect((await bench.job(caller, id)).status).toBe('running');
    await successor();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(bench.runner.spoken.length).toBe(3);
  });

  test('in the middle of a call is followed by one that makes the call again', async () => {
    const id = await bench.speech(caller, text);
    bench.runner.onCall = never;
    await bench.worker().claim();
    await untilCalls(1);
    await successor();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(bench.runner.spoken.length).toBe(4);
    expect(bench.runner.charged).toBe(82);
  });

  test('in the middle of a call that its journal tells of is charged under a new id', async () => {
    const id = await bench.speech(caller, text);
    bench.runner.onCall = never;
    await bench.worker().claim();
    await untilCalls(1);
    const [lost] = bench.runner.spoken;
    bench.runner.died(lost?.requestId ?? '');
    await successor();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(bench.runner.charged).toBe(82);
    expect(bench.runner.requestIds.length).toBe(4);
  });

  test.each(['setPieces', 'addPiece', 'finish'] as const)(
    'before the store hears of %s pays for no piece twice',
    async (step) => {
      const id = await bench.speech(caller, text);
      const reached = Promise.withResolvers<void>();
      const queue = stalling(bench.store.jobs.queue, step, reached.resolve);
      await bench.worker({ queue }).claim();
      await reached.promise;
      await successor();
      const job = await bench.job(caller, id);
      expect(job).toMatchObject({ status: 'succeeded', costCredits: 82, piecesDone: 3 });
      expect(bench.runner.charged).toBe(82);
      const calls = Map.groupBy(bench.runner.spoken, ({ input }) => input);
      expect(Math.max(...[...calls.values()].map(({ length }) => length))).toBeLessThanOrEqual(2);
      expect((await bench.output(caller, id)).length).toBe(wavFile(41).length);
      // What the dead one had stored is swept with the rest.
      bench.now += 25 * hour;
      await bench.sweep();
      expect(bench.stored()).toEqual([]);
    },
  );

  test('and comes back finds that the job is not its own any more', async () => {
    const id = await bench.speech(caller, text);
    const gate = Promise.withResolvers<void>();
    bench.runner.onCall = () => gate.promise;
    const asleep = bench.worker();
    await asleep.claim();
    await untilCalls(1);
    await successor();
    const before = await bench.job(caller, id);
    gate.resolve();
    await asleep.idle();
    expect(await bench.job(caller, id)).toEqual(before);
    expect(before).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(bench.runner.charged).toBe(82);
    expect(bench.failures).toEqual([]);
  });

  test('three times over one job fails the job, and the queue moves on', async () => {
    const poison = await bench.speech(caller, 'Poison.');
    const { queue } = bench.store.jobs;
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await queue.claim({ now: bench.now, until: bench.now + minute, exceptTenants: [] });
      bench.now += minute;
    }
    const good = await bench.speech(caller, 'Good.');
    await bench.workOff();
    expect((await bench.job(caller, poison)).failure).toEqual({
      message: 'The job was given up after 3 attempts that never ended.',
      type: 'internal_error',
      code: 500,
    });
    expect((await bench.job(caller, good)).status).toBe('succeeded');
    expect(bench.runner.spoken.map(({ input }) => input)).toEqual(['Good.']);
  });

  async function untilCalls(calls: number): Promise<void> {
    while (bench.runner.spoken.length < calls) await Bun.sleep(1);
  }
});

describe('a worker', () => {
  /** Calls that wait until they are aborted or let go. */
  function hold() {
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    bench.runner.onCall = async ({ signal }) => {
      begun.resolve();
      const aborted = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => aborted.reject(new Error('aborted')));
      await Promise.race([gate.promise, aborted.promise]);
    };
    return { begun: begun.promise, let: () => gate.resolve() };
  }

  /** A job whose first call has begun, and its worker. */
  async function underWay(words = text) {
    const id = await bench.speech(caller, words);
    const call = hold();
    const worker = bench.worker();
    await worker.claim();
    await call.begun;
    return { id, call, worker };
  }

  test('keeps its job by telling that it lives', async () => {
    const { id, call, worker } = await underWay('Short.');
    for (let round = 0; round < 4; round += 1) {
      bench.now += 45_000;
      await worker.renew();
      await bench.worker().claim();
    }
    call.let();
    await worker.idle();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', attempts: 1 });
    expect(bench.runner.spoken.length).toBe(1);
  });

  test('keeps its job when the clock jumps ahead, and does not run it beside itself', async () => {
    const { id, call, worker } = await underWay('Short.');
    bench.now += 2 * hour;
    await worker.claim();
    await bench.worker().claim();
    call.let();
    await worker.idle();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', attempts: 1 });
    expect(bench.runner.spoken.length).toBe(1);
  });

  test('keeps its job while the store is away, until another may have it', async () => {
    const [brief, long] = [await underWay('Short.'), await underWay('Short.')];
    const renewal = spyOn(bench.store.jobs.queue, 'renew').mockRejectedValue(new Error('away'));
    bench.now += 45_000;
    await brief.worker.renew();
    brief.call.let();
    await brief.worker.idle();
    expect(await bench.job(caller, brief.id)).toMatchObject({ status: 'succeeded', attempts: 1 });
    bench.now += 15_000;
    await long.worker.renew();
    renewal.mockRestore();
    await long.worker.idle();
    expect(bench.runner.spoken.map(({ signal }) => signal.reason)).toEqual([undefined, 'lost']);
  });

  test('stops a job that was cancelled, and says nothing more about it', async () => {
    const { id, worker } = await underWay();
    await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
    await worker.renew();
    await worker.idle();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'cancelled', failure: null });
    expect(bench.failures).toEqual([]);
    await bench.sweep();
    expect(bench.stored()).toEqual([]);
  });

  test('tells a piece why it is broken off: cancelled elsewhere, or lost to another', async () => {
    const [mine, theirs] = [await underWay(), await underWay()];
    await bench.desk.cancel(caller.tenantId, mine.id, 'http://g.test');
    await mine.worker.renew();
    bench.now += 61_000;
    const { now } = bench;
    await bench.store.jobs.queue.claim({ now, until: now + minute, exceptTenants: [] });
    await theirs.worker.renew();
    await Promise.all([mine.worker.idle(), theirs.worker.idle()]);
    const reasons = bench.runner.spoken.map(({ signal }) => signal.reason);
    expect(reasons).toEqual(['cancelled', 'lost']);
  });

  test('breaks off a job that is cancelled where it runs, and tells its cost', async () => {
    const { id, worker } = await underWay();
    bench.onCancelled = (jobId) => worker.abortCanceled(jobId);
    const [running] = bench.runner.spoken;
    await bench.runner.brokenOff(running?.requestId ?? '', 7);
    await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
    await worker.idle();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'cancelled', costCredits: 7 });
    expect([bench.runner.spoken.length, bench.runner.charged]).toEqual([1, 7]);
  });

  test('of another process ends the piece of a cancelled job, and tells its cost', async () => {
    const { id, call, worker } = await underWay();
    await bench.desk.cancel(caller.tenantId, id, 'http://g.test');
    call.let();
    await worker.idle();
    // Two credits for each of the 13 characters of the first piece.
    const told = { status: 'cancelled', costCredits: 26, units: 13 };
    expect(await bench.job(caller, id)).toMatchObject(told);
    expect(bench.runner.charged).toBe(26);
    await bench.sweep();
    expect(bench.stored()).toEqual([]);
  });

  test('asks no provider again because the store undid a piece once', async () => {
    const id = await bench.speech(caller, 'Short.');
    const undone = new Error('Connection terminated unexpectedly');
    spyOn(bench.store.jobs.queue, 'addPiece').mockRejectedValueOnce(undone);
    await bench.workOff(bench.worker());
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 12 });
    expect(bench.runner.spoken).toHaveLength(1);
  });

  test('leaves no output of a job that was cancelled before its pieces were joined', async () => {
    const id = await bench.speech(caller, 'Short.');
    const { objects } = bench.store.jobs;
    const worker = bench.worker({
      objects: {
        async register(key, jobId, deleteAt) {
          const { piecesDone } = await bench.job(caller, jobId);
          if (piecesDone > 0) await bench.desk.cancel(caller.tenantId, jobId, 'http://g.test');
          await objects.register(key, jobId, deleteAt);
        },
        releaseUnused: (key) => objects.releaseUnused(key),
      },
    });
    await bench.workOff(worker);
    expect(await bench.job(caller, id)).toMatchObject({ status: 'cancelled', costCredits: 12 });
    expect(bench.stored()).not.toEqual([]);
    await bench.sweep();
    expect(bench.stored()).toEqual([]);
  });

  test('fails a job that does not end within six hours', async () => {
    const { id, worker } = await underWay();
    bench.now += 6 * hour + 1;
    await worker.renew();
    await worker.idle();
    expect((await bench.job(caller, id)).failure).toEqual({
      message: 'The job did not end within 6 hours.',
      type: 'upstream_error',
      code: 504,
    });
  });

  test('that is stopped gives its jobs back, and another goes on with them', async () => {
    const { id, worker } = await underWay();
    await worker.stop(10);
    expect(await bench.job(caller, id)).toMatchObject({ status: 'queued', attempts: 0 });
    await worker.claim();
    expect((await bench.job(caller, id)).status).toBe('queued');
    bench.runner.onCall = async () => {};
    await bench.workOff();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
  });

  test('that is stopped finishes the pieces that run, and starts no other', async () => {
    const { id, call, worker } = await underWay();
    const stopped = worker.stop(60_000);
    call.let();
    await stopped;
    expect(await bench.job(caller, id)).toMatchObject({ status: 'queued', piecesDone: 1 });
    expect(bench.runner.spoken.length).toBe(1);
    await bench.workOff();
    expect(await bench.job(caller, id)).toMatchObject({ status: 'succeeded', costCredits: 82 });
    expect(bench.runner.spoken.length).toBe(3);
  });

  test('does four jobs at once, and leaves a place to a second tenant', async () => {
    const call = hold();
    for (let at = 0; at < 6; at += 1) await bench.speech(caller, 'Mine.');
    const worker = bench.worker();
    await worker.claim();
    const page = { limit: 9, offset: 0, status: 'running' } as const;
    const running = async (who: Caller) =>
      (await bench.store.jobs.book.list(who.tenantId, page, Date.now())).length;
    expect(await running(caller)).toBe(3);
    const other = await bench.newCaller();
    for (let at = 0; at < 3; at += 1) await bench.speech(other, 'Yours.');
    await worker.claim();
    expect([await running(caller), await running(other)]).toEqual([3, 1]);
    call.let();
    await worker.idle();
  });

  test('tells the operator what only looks like a failure to the client', async () => {
    bench.runner.onCall = async () => {
      throw new Error('A mistake of ours.');
    };
    const id = await bench.speech(caller, 'Short.');
    const worker = bench.worker();
    for (const waitMs of [0, 15_000, 300_000]) {
      bench.now += waitMs;
      await bench.workOff(worker);
    }
    expect((await bench.job(caller, id)).failure).toMatchObject({
      type: 'internal_error',
      code: 500,
    });
    expect(JSON.stringify(await bench.job(caller, id))).not.toContain('mistake');
    expect(bench.failures).toEqual(Array(3).fill(new Error('A mistake of ours.')));
  });
});

describe('a transcription job', () => {
  test('sends a small file whole, under a name that says what it is', async () => {
    const audio = wavFile(3);
    const id = await bench.transcription(caller, audio, {
      ...{ language: 'de', prompt: 'Namen', temperature: '0.2', response_format: 'verbose_json' },
      'timestamp_granularities[]': 'word',
    });
    bench.runner.hear = () => '{"text":"Eins.","duration":0.72}';
    await bench.workOff();
    const [sent] = bench.runner.heard;
    expect(sent).toMatchObject({
      ...{ extension: 'wav', language: 'de', prompt: 'Namen', temperature: 0.2 },
      ...{ format: 'verbose_json', granularities: ['word'], provider: null },
    });
    expect(Buffer.from(sent?.audio ?? []).equals(audio)).toBe(true);
    expect((await bench.output(caller, id)).toString()).toBe('{"text":"Eins.","duration":0.72}');
    expect(await bench.job(caller, id)).toMatchObject({ costCredits: 50, units: 1_500 });
  });

  test('cuts a large file and moves the times of its parts', async () => {
    // Two hours of MP3 in 28.8 MB: three parts of fifty, fifty and twenty minutes.
    const id = await bench.transcription(caller, mp3File(30_000), { response_format: 'srt' });
    const begun: number[] = [];
    bench.runner.hear = () => {
      begun.push(bench.runner.heard.length);
      return '1\n00:00:01,000 --> 00:00:02,000\nHello\n\n';
    };
    await bench.workOff();
    // One at a time: each is held in memory whole.
    expect(begun).toEqual([1, 2, 3]);
    expect((await bench.output(caller, id)).toString()).toBe(
      '1\n00:00:01,000 --> 00:00:02,000\nHello\n\n' +
        '2\n00:50:01,000 --> 00:50:02,000\nHello\n\n' +
        '3\n01:40:01,000 --> 01:40:02,000\nHello\n\n',
    );
    expect(bench.runner.heard.map(({ extension }) => extension)).toEqual(Array(3).fill('mp3'));
    const job = await bench.job(caller, id);
    expect(job).toMatchObject({ costCredits: 150, piecesTotal: 3, units: 4_500 });
    expect(job.output?.key).toEndWith('.srt');
  }, 120_000);

  test('of a large file that cannot be cut fails, saying so', async () => {
    const flac = Buffer.alloc(26 * 1024 * 1024);
    flac.write('fLaC');
    const id = await bench.transcription(caller, flac);
    await bench.workOff();
    expect((await bench.job(caller, id)).failure).toEqual({
      message:
        'Only wav and mp3 files can be cut for transcription, and this one is neither; ' +
        'send other formats in files of at most 25 MB.',
      type: 'invalid_request_error',
      code: 400,
    });
    expect(bench.runner.heard).toEqual([]);
  }, 120_000);
});
