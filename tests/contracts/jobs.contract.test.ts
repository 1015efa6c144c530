import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { newRequestId, randomText } from '../../src/core/ids.ts';
import { newObjectKey } from '../../src/core/stored-object.ts';
import type { Job, JobRequest, Piece } from '../../src/jobs/job.ts';
import type { Lease, NewJob } from '../../src/jobs/queue.ts';
import { toSettlementEntry } from '../../src/money/ledger.ts';
import { noCharges } from '../../src/money/price/fee-kinds.ts';
import type { JobStores } from '../../src/store/open.ts';
import { book, grant, makeRecord } from './bookings.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';

const start = 1_800_000_000_000;
const minute = 60_000;
const day = 24 * 60 * minute;
const plenty = { waitingMax: 1_000_000, inputBytesMax: 1_000_000_000 };

const speech: JobRequest = {
  type: 'speech',
  voice: 'alloy',
  format: 'mp3',
  speed: 1.5,
  instructions: 'Gently, “ünïcode”.',
  limit: { unit: 'characters', max: 4_096 },
};

describe.each([...engines])('job stores on $name', ({ empty }) => {
  let stores: TwoStores;
  let jobs: JobStores;
  let otherJobs: JobStores;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    jobs = stores.one.jobs;
    otherJobs = stores.other.jobs;
  }, 120_000);

  afterAll(() => stores.close());

  beforeEach(async () => {
    const { write } = stores.one.database;
    for (const table of ['webhooks', 'job_objects', 'job_pieces', 'jobs', 'job_turns'] as const) {
      await write.deleteFrom(table).execute();
    }
    tenantId = await newTenant();
  });

  const newTenant = () => addTenant(stores.one);

  function newJob(change: Partial<NewJob> = {}): NewJob {
    return {
      id: `job_${randomText(24)}`,
      tenantId,
      keyId: 'key_of_the_tenant',
      model: 'demo/speech',
      request: speech,
      inputKey: newObjectKey('txt'),
      inputBytes: 100,
      metadata: { order: '№ 7' },
      webhookUrl: null,
      createdAt: start,
      ...change,
    };
  }

  async function queued(change: Partial<NewJob> = {}): Promise<NewJob> {
    const job = newJob(change);
    await jobs.objects.register(job.inputKey, job.id, start + day);
    expect(await jobs.store.enqueue(job, plenty, null)).toEqual({ ok: true });
    return job;
  }

  const claimAt = (now: number, from = jobs, exceptTenants: readonly string[] = []) =>
    from.queue.claim({ now, until: now + minute, exceptTenants });

  async function claimed(now = start): Promise<{ job: Job; lease: Lease }> {
    const found = await claimAt(now);
    if (!found) throw new Error('There is no job to claim.');
    return found;
  }

  const piece = (number: number, change: Partial<Piece> = {}): Piece => ({
    number,
    objectKey: newObjectKey('mp3'),
    costCredits: 40,
    units: 1_000,
    provider: 'demo',
    ...change,
  });

  const success = (now: number) => ({
    status: 'succeeded' as const,
    outputKey: newObjectKey('mp3'),
    outputBytes: 77,
    expiresAt: now + day,
    now,
  });
  const failure = { message: 'No.', type: 'upstream_error', code: 502 };

  test('return a job as it was queued, to its tenant only', async () => {
    const job = await queued({ webhookUrl: 'https://hooks.example/a?b=c' });
    const found = await otherJobs.store.find(tenantId, job.id);
    expect(found).toEqual({
      ...job,
      status: 'queued',
      attempts: 0,
      piecesDone: 0,
      piecesTotal: null,
      costCredits: 0,
      units: 0,
      output: null,
      failure: null,
      startedAt: null,
      completedAt: null,
      expiresAt: null,
    });
    const other = await newTenant();
    expect(await otherJobs.store.find(other, job.id)).toBeUndefined();
    expect(await otherJobs.store.cancel(other, job.id, start)).toBeUndefined();
    expect((await jobs.store.find(tenantId, job.id))?.status).toBe('queued');
  });

  test("list a tenant's jobs newest first, in pages, by status", async () => {
    const created: string[] = [];
    for (let i = 0; i < 5; i += 1) created.unshift((await queued({ createdAt: start + i })).id);
    await queued({ tenantId: await newTenant(), createdAt: start - 1 });
    const ids = async (limit: number, offset: number, status: Job['status'] | null = null) =>
      (await otherJobs.store.list(tenantId, { limit, offset, status }, start)).map(({ id }) => id);
    expect(await ids(10, 0)).toEqual(created);
    expect(await ids(2, 1)).toEqual(created.slice(1, 3));
    expect(await ids(10, 5)).toEqual([]);
    await jobs.store.cancel(tenantId, created[2] ?? '', start);
    expect(await ids(10, 0, 'cancelled')).toEqual(created.slice(2, 3));
    expect(await ids(10, 0, 'queued')).toEqual(created.filter((_, i) => i !== 2));
    expect(await ids(10, 0, 'failed')).toEqual([]);
  });

  test('list a job as expired once its expiry has passed, even before the sweep', async () => {
    const { id } = await queued();
    const { lease } = await claimed();
    const output = { outputKey: 'b.mp3', outputBytes: 3, expiresAt: start + 1_000 };
    await jobs.queue.finish(lease, { status: 'succeeded', ...output, now: start });
    const listed = async (status: Job['status'], now: number) => {
      const page = { limit: 10, offset: 0, status };
      return (await otherJobs.store.list(tenantId, page, now)).map((job) => job.id);
    };
    const [before, after] = [start + 999, start + 1_000];
    expect(await listed('succeeded', before)).toEqual([id]);
    expect(await listed('expired', before)).toEqual([]);
    expect(await listed('succeeded', after)).toEqual([]);
    expect(await listed('expired', after)).toEqual([id]);
  });

  test('give each job to only 1 of 20 concurrent workers', async () => {
    const created = [];
    for (let i = 0; i < 12; i += 1) created.push(await queued({ createdAt: start + i }));
    const rounds = Array.from({ length: 20 }, (_, i) =>
      claimAt(start + 100, i % 2 === 0 ? jobs : otherJobs),
    );
    const found = (await Promise.all(rounds)).flatMap((claim) => (claim ? [claim.job.id] : []));
    expect(new Set(found).size).toBe(found.length);
    while (found.length < 12) found.push((await claimed(start + 100)).job.id);
    expect(found.toSorted()).toEqual(created.map(({ id }) => id).toSorted());
    expect(await claimAt(start + 100)).toBeUndefined();
    const [first] = created;
    expect((await jobs.store.find(tenantId, first?.id ?? ''))?.startedAt).toBe(start + 100);
  });

  test('let another worker take over a job whose lease has expired', async () => {
    const { id } = await queued();
    const { job, lease } = await claimed();
    expect(job).toMatchObject({ id, status: 'running', attempts: 1, startedAt: start });
    expect(await claimAt(start + minute - 1, otherJobs)).toBeUndefined();
    expect(await jobs.queue.renew(lease, start + 2 * minute)).toBe(true);
    expect(await claimAt(start + minute, otherJobs)).toBeUndefined();
    const successor = await claimAt(start + 2 * minute, otherJobs);
    expect(successor?.job).toMatchObject({ id, attempts: 2, startedAt: start });
    // A worker that has lost the lease can't change the job.
    expect(await jobs.queue.renew(lease, start + day)).toBe(false);
    expect(await jobs.queue.isCanceled(id)).toBe(false);
    expect(await jobs.queue.setPieces(lease, 9)).toBe(false);
    expect(await jobs.queue.addPiece(lease, piece(0))).toBe(false);
    expect(await jobs.queue.release(lease, { notBefore: start, isAttempt: true })).toBe(false);
    expect(await jobs.queue.finish(lease, success(start))).toBe(false);
    const now = await jobs.store.find(tenantId, id);
    expect(now).toMatchObject({ status: 'running', piecesTotal: null, costCredits: 0 });
    expect(await jobs.queue.pieces(id)).toEqual([]);
  });

  test('keep finished pieces and their cost when another worker takes over', async () => {
    const { id } = await queued();
    const { lease } = await claimed();
    expect(await jobs.queue.setPieces(lease, 3)).toBe(true);
    const [one, two] = [piece(2), piece(0, { costCredits: 2, units: 9, provider: 'other' })];
    expect(await jobs.queue.addPiece(lease, one)).toBe(true);
    const successor = await claimAt(start + minute, otherJobs);
    if (!successor) throw new Error("The job wasn't taken over.");
    // Progress resets the number of attempts.
    expect(successor.job).toMatchObject({ piecesDone: 1, piecesTotal: 3, attempts: 2 });
    expect(await otherJobs.queue.addPiece(successor.lease, two)).toBe(true);
    expect(await jobs.queue.pieces(id)).toEqual([two, one]);
    expect(await jobs.store.find(tenantId, id)).toMatchObject({
      piecesDone: 2,
      costCredits: 42,
      units: 1_009,
      attempts: 1,
    });
  });

  test('count units that finished after a cancellation', async () => {
    const { id } = await queued();
    const { lease } = await claimed();
    await jobs.queue.addLateUnits(id, 500);
    expect(await jobs.store.find(tenantId, id)).toMatchObject({ units: 0 });
    expect(await jobs.queue.isCanceled(id)).toBe(false);
    await otherJobs.store.cancel(tenantId, id, start);
    expect(await jobs.queue.isCanceled(id)).toBe(true);
    expect(await jobs.queue.addPiece(lease, piece(0))).toBe(false);
    await jobs.queue.addLateUnits(id, 500);
    expect(await otherJobs.store.find(tenantId, id)).toMatchObject({
      status: 'cancelled',
      costCredits: 0,
      units: 500,
    });
  });

  test('set the cost to the booked charges of the pieces, even after a crash', async () => {
    const { id } = await queued();
    const { lease } = await claimed();
    const other = await queued();
    await grant(stores.one, tenantId, 75);
    const charged = (modelCharge: number, jobId = id) =>
      makeRecord({ tenantId, jobId, charges: { ...noCharges, modelCharge } });
    const costs = async (jobId = id) => {
      const page = { limit: 9, offset: 0, status: null };
      const listed = (await otherJobs.store.list(tenantId, page, start)).find(
        (job) => job.id === jobId,
      );
      const found = await jobs.store.find(tenantId, jobId);
      return [found?.costCredits, listed?.costCredits];
    };
    const first = charged(30);
    const otherRequest = makeRecord({ tenantId, charges: noCharges });
    await book(stores.one, [first, charged(10), charged(5, other.id), otherRequest]);
    expect(await costs()).toEqual([40, 40]);
    await jobs.queue.addPiece((await claimed()).lease, piece(0, { costCredits: 5 }));
    await jobs.queue.addPiece(lease, piece(0));
    expect(await costs()).toEqual([40, 40]);
    // The worker crashes, so no piece is recorded for this charge.
    await book(stores.other, [charged(20)]);
    expect((await jobs.store.cancel(tenantId, id, start))?.costCredits).toBe(60);
    // Its journal is replayed later, with a booked line and a charge above the remaining credits.
    const entries = [first, charged(30)].map((record) =>
      toSettlementEntry({ record, writtenOff: 0, keyAccount: null, keyCharge: 0 }),
    );
    const late = { processId: 'dead', entries, mayRepeat: true, now: start };
    for (let count = 0; count < 2; count += 1) await stores.other.ledger.commit(late);
    await stores.one.database.write.deleteFrom('request_log').execute();
    expect(await costs()).toEqual([70, 70]);
    expect(await costs(other.id)).toEqual([5, 5]);
  });

  test('count the cost of pieces that end at the same time', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { id } = await queued({ createdAt: start - round });
      const { lease } = await claimed();
      // A process of an older version booked the charges without adding them to the job.
      await Promise.all([0, 1, 2].map((number) => jobs.queue.addPiece(lease, piece(number))));
      expect((await jobs.store.find(tenantId, id))?.costCredits).toBe(120);
    }
  });

  test('reject a duplicate piece', async () => {
    await queued();
    const { job, lease } = await claimed();
    await jobs.queue.addPiece(lease, piece(0));
    const outcome = await jobs.queue.addPiece(lease, piece(0)).catch(() => 'rejected');
    expect(outcome).toBe('rejected');
    expect(await jobs.store.find(tenantId, job.id)).toMatchObject({
      piecesDone: 1,
      costCredits: 40,
    });
  });

  test('return a released job to the queue, with or without counting the attempt', async () => {
    await queued();
    const first = await claimed();
    await jobs.queue.release(first.lease, { notBefore: start + 5_000, isAttempt: true });
    expect((await jobs.store.find(tenantId, first.job.id))?.status).toBe('queued');
    expect(await claimAt(start + 4_999)).toBeUndefined();
    const second = await claimed(start + 5_000);
    expect(second.job.attempts).toBe(2);
    await jobs.queue.release(second.lease, { notBefore: start + 5_000, isAttempt: false });
    expect((await claimed(start + 5_000)).job.attempts).toBe(1);
  });

  test('claim jobs under a clock that was set back, oldest first', async () => {
    const old = await queued();
    const young = await queued({ createdAt: start + 1 });
    const first = await claimed(start - 60 * minute);
    expect(first.job.id).toBe(old.id);
    await jobs.queue.release(first.lease, { notBefore: start + 5_000, isAttempt: true });
    expect((await claimed(start + 5_000)).job.id).toBe(old.id);
    expect((await claimed(start + 5_000)).job.id).toBe(young.id);
  });

  test('end a job once when workers and cancellations race', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { id } = await queued({ webhookUrl: 'https://hooks.example/' });
      const { lease } = await claimed(start + round * day);
      const ends = await Promise.all([
        jobs.queue.finish(lease, success(start)),
        otherJobs.queue.finish(lease, { status: 'failed', failure, now: start }),
        ...Array.from({ length: 10 }, (_, i) =>
          (i % 2 === 0 ? jobs : otherJobs).store
            .cancel(tenantId, id, start)
            .then((job) => job?.status),
        ),
      ]);
      const [succeeded, failed, ...canceledStatuses] = ends;
      const statuses = new Set(canceledStatuses);
      expect(statuses.size).toBe(1);
      const [status] = statuses;
      expect([succeeded, failed]).toEqual([status === 'succeeded', status === 'failed']);
      const rows = await stores.one.database.read
        .selectFrom('webhooks')
        .select('event')
        .where('job_id', '=', id)
        .execute();
      expect(rows).toEqual([{ event: `job.${status}` }]);
    }
  });

  test('store the outcome of a job', async () => {
    const { id } = await queued();
    const end = success(start + 7);
    expect(await jobs.queue.finish((await claimed()).lease, end)).toBe(true);
    expect(await otherJobs.store.find(tenantId, id)).toMatchObject({
      status: 'succeeded',
      output: { key: end.outputKey, bytes: 77 },
      failure: null,
      completedAt: start + 7,
      expiresAt: start + 7 + day,
    });
    const { id: other } = await queued();
    const { lease } = await claimed();
    await jobs.queue.addPiece(lease, piece(0));
    const failed = { status: 'failed', failure, now: start + 8 } as const;
    await jobs.queue.finish(lease, failed);
    expect(await otherJobs.store.find(tenantId, other)).toMatchObject({
      status: 'failed',
      failure,
      output: null,
      costCredits: 40,
      completedAt: start + 8,
    });
    expect(await claimAt(start + day)).toBeUndefined();
  });

  test('reject jobs above the queue limit, including concurrent ones', async () => {
    const bounds = { waitingMax: 5, inputBytesMax: 1_000_000 };
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        (i % 2 === 0 ? jobs : otherJobs).store.enqueue(newJob(), bounds, null),
      ),
    );
    expect(outcomes.filter((outcome) => outcome.ok).length).toBe(5);
    const rejections = outcomes.filter((outcome) => !outcome.ok);
    expect(rejections).toEqual(Array(7).fill({ ok: false, reason: 'too_many_jobs' }));
    // Running jobs count, ended ones don't, and each tenant has its own limit.
    const { lease } = await claimed();
    expect(await jobs.store.enqueue(newJob(), bounds, null)).toMatchObject({ ok: false });
    await jobs.queue.finish(lease, success(start));
    expect(await jobs.store.enqueue(newJob(), bounds, null)).toEqual({ ok: true });
    const another = newJob({ tenantId: await newTenant() });
    expect(await jobs.store.enqueue(another, bounds, null)).toEqual({ ok: true });
  });

  test('create a job for an idempotency key only while the request holds the key', async () => {
    const claims = [stores.one.claims, stores.other.claims] as const;
    const newClaim = () => ({ tenantId, key: 'k', fingerprint: 'f', requestId: newRequestId() });
    const [late, successor] = [newClaim(), newClaim()];
    const answerExpiresAt = start + day;
    expect(await claims[0].claim(late, start, minute)).toEqual({ state: 'ours' });
    expect(await claims[1].claim(successor, start + minute, minute)).toEqual({ state: 'ours' });
    const rejected = await jobs.store.enqueue(newJob(), plenty, {
      ...late,
      answerExpiresAt,
    });
    expect(rejected).toEqual({ ok: false, reason: 'claim_taken_over' });
    expect(await claimAt(start)).toBeUndefined();
    const job = newJob();
    expect(await otherJobs.store.enqueue(job, plenty, { ...successor, answerExpiresAt })).toEqual({
      ok: true,
    });
    // Even if its process dies now, a repeated request finds the job and creates no other.
    const repeated = await claims[0].claim(newClaim(), start + 2 * minute, minute);
    expect(repeated).toMatchObject({ state: 'done', recording: { text: job.id } });
  });

  test('reject jobs whose inputs together exceed the limit', async () => {
    const bounds = { waitingMax: 100, inputBytesMax: 1_000 };
    const enqueue = (inputBytes: number) =>
      jobs.store.enqueue(newJob({ inputBytes }), bounds, null);
    expect(await enqueue(600)).toEqual({ ok: true });
    expect(await enqueue(401)).toEqual({ ok: false, reason: 'too_many_bytes' });
    expect(await enqueue(400)).toEqual({ ok: true });
  });

  test('alternate between tenants when one has thousands of queued jobs', async () => {
    const rows = Array.from({ length: 10_000 }, (_, i) => newJob({ createdAt: start + i }));
    await stores.one.database.write.transaction().execute(async (change) => {
      for (let offset = 0; offset < rows.length; offset += 500) {
        const values = rows.slice(offset, offset + 500).map((job) => ({
          id: job.id,
          tenant_id: job.tenantId,
          key_id: job.keyId,
          model: job.model,
          request: JSON.stringify(job.request),
          input_key: job.inputKey,
          input_bytes: job.inputBytes,
          metadata: '{}',
          status: 'queued' as const,
          attempts: 0,
          claimable_at: job.createdAt,
          pieces_done: 0,
          cost: 0,
          units: 0,
          created_at: job.createdAt,
        }));
        await change.insertInto('jobs').values(values).execute();
      }
    });
    await queued({ createdAt: start });
    for (let i = 0; i < 3; i += 1) await claimed(start + minute + i);
    const other = await newTenant();
    const { id } = await queued({ tenantId: other, createdAt: start + 2 * minute });
    const { id: next } = await queued({ tenantId: other, createdAt: start + 2 * minute + 1 });
    // The new tenant is next. From then on, the two take turns.
    const turns = [];
    for (let i = 0; i < 4; i += 1) turns.push((await claimed(start + 3 * minute + i)).job);
    expect(turns.map((job) => job.tenantId)).toEqual([other, tenantId, other, tenantId]);
    expect([turns[0]?.id, turns[2]?.id]).toEqual([id, next]);
    // A worker at the limit of one tenant leaves that tenant's jobs to others.
    expect(await claimAt(start + 3 * minute + 10, jobs, [tenantId])).toBeUndefined();
  }, 120_000);

  test('schedule the deletion of all objects of an ended job except its output', async () => {
    const { id, inputKey } = await queued();
    expect(await jobs.objects.due(start + 10 * day, 10)).toEqual([]);
    const { lease } = await claimed();
    const done = piece(0);
    const end = success(start + minute);
    await jobs.objects.register(done.objectKey, id, start + day);
    await jobs.queue.addPiece(lease, done);
    await jobs.objects.register(end.outputKey, id, start + day);
    await jobs.queue.finish(lease, end);
    const due = async (now: number) => (await otherJobs.objects.due(now, 10)).toSorted();
    expect(await due(start + minute - 1)).toEqual([]);
    expect(await due(start + minute)).toEqual([inputKey, done.objectKey].toSorted());
    await jobs.objects.unregister(inputKey);
    await jobs.objects.unregister(done.objectKey);
    expect(await due(end.expiresAt - 1)).toEqual([]);
    expect(await due(end.expiresAt)).toEqual([end.outputKey]);
  });

  test('schedule the deletion of objects whose job was canceled or never created', async () => {
    const { id, inputKey } = await queued();
    const orphan = newObjectKey('wav');
    await jobs.objects.register(orphan, 'job_unknown', start + day);
    await jobs.store.cancel(tenantId, id, start + 5);
    expect(await jobs.objects.due(start + 5, 10)).toEqual([inputKey]);
    expect((await jobs.objects.due(start + day, 10)).toSorted()).toEqual(
      [inputKey, orphan].toSorted(),
    );
    expect(await jobs.objects.due(start + day, 1)).toEqual([inputKey]);
    // An object that can't be deleted is retried after the others.
    await jobs.objects.postpone(inputKey, start + 2 * day);
    expect(await otherJobs.objects.due(start + 2 * day - 1, 10)).toEqual([orphan]);
    expect(await otherJobs.objects.due(start + 2 * day, 10)).toEqual([orphan, inputKey]);
  });

  test('release only inputs without a job', async () => {
    const orphan = newObjectKey('wav');
    await jobs.objects.register(orphan, 'job_unknown', start + day);
    expect(await jobs.objects.releaseUnused(orphan)).toBe(true);
    const job = newJob();
    await jobs.objects.register(job.inputKey, job.id, start + day);
    await jobs.store.enqueue(job, plenty, null);
    expect(await otherJobs.objects.releaseUnused(job.inputKey)).toBe(false);
    expect(await otherJobs.objects.due(start, 10)).toEqual([orphan]);
  });

  test('expire outputs after a day and delete jobs after a month', async () => {
    const { id } = await queued();
    const { lease } = await claimed();
    await jobs.queue.addPiece(lease, piece(0));
    await jobs.queue.finish(lease, success(start));
    await jobs.objects.expire(start + day - 1, start - 30 * day);
    expect((await jobs.store.find(tenantId, id))?.status).toBe('succeeded');
    await jobs.objects.expire(start + day, start - 29 * day);
    expect((await jobs.store.find(tenantId, id))?.status).toBe('expired');
    await jobs.objects.expire(start + 30 * day, start);
    expect((await jobs.store.find(tenantId, id))?.status).toBe('expired');
    await jobs.objects.expire(start + 31 * day, start + 1);
    expect(await jobs.store.find(tenantId, id)).toBeUndefined();
    expect(await jobs.queue.pieces(id)).toEqual([]);
  });

  test('expire at most 500 jobs per sweep', async () => {
    const { id } = await queued();
    await jobs.queue.finish((await claimed()).lease, success(start));
    const { read, write } = stores.one.database;
    const one = await read.selectFrom('jobs').selectAll().executeTakeFirstOrThrow();
    const more = Array.from({ length: 600 }, (_, index) => ({ ...one, id: `${id}${index}` }));
    await write.insertInto('jobs').values(more).execute();
    const expired: number[] = [];
    for (let rounds = 0; rounds < 2; rounds++) {
      await jobs.objects.expire(start + day, start);
      const rows = read.selectFrom('jobs').select('id').where('status', '=', 'expired').execute();
      expired.push((await rows).length);
    }
    expect(expired).toEqual([500, 601]);
  });

  test('never expire queued jobs', async () => {
    const { id } = await queued();
    await jobs.objects.expire(start + 90 * day, start + 60 * day);
    expect((await claimAt(start + 90 * day))?.job.id).toBe(id);
  });

  describe('webhooks', () => {
    const hook = 'https://hooks.example/path';
    const next = (now: number, exceptTenants: readonly string[] = []) =>
      jobs.webhooks.claim({ now, until: now + minute, exceptTenants });

    async function ended(change: Partial<NewJob> = {}): Promise<string> {
      const { id } = await queued({ webhookUrl: hook, ...change });
      await jobs.store.cancel(change.tenantId ?? tenantId, id, start);
      return id;
    }

    test('are queued when a job with a webhook URL ends', async () => {
      const { id } = await queued();
      await jobs.store.cancel(tenantId, id, start);
      expect(await next(start + day)).toBeUndefined();
      const jobId = await ended();
      expect(await next(start - 1)).toBeUndefined();
      const found = await next(start);
      expect(found).toEqual({
        id: expect.stringMatching(/^msg_[0-9a-z]{24}$/),
        jobId,
        tenantId,
        url: hook,
        event: 'job.cancelled',
        attempts: 1,
        createdAt: start,
      });
    });

    test('are claimed again after a crash or a retry', async () => {
      await ended();
      const first = await next(start);
      expect(await next(start + minute - 1)).toBeUndefined();
      expect((await next(start + minute))?.attempts).toBe(2);
      await jobs.webhooks.retry(first?.id ?? '', start + day);
      expect(await next(start + day - 1)).toBeUndefined();
      expect((await next(start + day))?.attempts).toBe(3);
      await jobs.webhooks.remove(first?.id ?? '');
      expect(await next(start + 2 * day)).toBeUndefined();
    });

    test('are claimed once by concurrent processes', async () => {
      for (let i = 0; i < 6; i += 1) await ended();
      const claims = await Promise.all(
        Array.from({ length: 12 }, (_, i) =>
          (i % 2 === 0 ? jobs : otherJobs).webhooks.claim({
            now: start,
            until: start + minute,
            exceptTenants: [],
          }),
        ),
      );
      const ids = claims.flatMap((found) => (found ? [found.id] : []));
      expect(new Set(ids).size).toBe(ids.length);
      while (ids.length < 6) ids.push((await next(start))?.id ?? 'missing');
      expect(new Set(ids).size).toBe(6);
      expect(await next(start)).toBeUndefined();
    });

    test('are claimed for other tenants while one is at its limit', async () => {
      await ended();
      const other = await newTenant();
      await ended({ tenantId: other });
      expect((await next(start, [tenantId]))?.tenantId).toBe(other);
      expect(await next(start, [tenantId])).toBeUndefined();
      expect((await next(start))?.tenantId).toBe(tenantId);
    });
  });
});
