/** A gateway that is killed in the middle of a job: another goes on, and the piece costs once. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import { discrepancies } from '../support/book-check.ts';
import {
  createStoryJob,
  type JobStory,
  sendStory,
  startJobStory,
  storyReply,
} from '../support/job-story.ts';

const script = join(import.meta.dir, '../support/run-job-story.ts');

let folder: string;
let calls: number;
let answer: () => Response | Promise<Response>;
let upstream: Bun.Server<undefined>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-job-kill-'));
  calls = 0;
  answer = storyReply;
  upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch() {
      calls += 1;
      return answer();
    },
  });
});

afterEach(async () => {
  await upstream.stop(true);
  rmSync(folder, { recursive: true });
});

async function startProcess(stallAt = '') {
  const child = Bun.spawn([process.execPath, script, folder, String(upstream.url), stallAt], {
    stdout: 'pipe',
    stderr: 'inherit',
  });
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const until = async (pattern: RegExp) => {
    for (;;) {
      const [found] = pattern.exec(text) ?? [];
      if (found) return found;
      const { done, value } = await lines.read();
      if (done) throw new Error(`The process ended: ${text}`);
      text += value;
    }
  };
  return { url: await until(/http:\S+/), until, child };
}

async function kill({ child }: Awaited<ReturnType<typeof startProcess>>): Promise<void> {
  child.kill('SIGKILL');
  await child.exited;
}

/** The job of a gateway that was killed when it had come to `step`. */
async function killedAt(step: string): Promise<string> {
  const dying = await startProcess(step);
  const id = await createStoryJob(dying);
  await dying.until(/stalled/);
  await kill(dying);
  return id;
}

type OnStart = (story: JobStory) => Promise<void>;

/** The lease of the dead one is over; whoever starts next finds the job. */
async function succeeded(id: string, onStart: OnStart): Promise<JobStory> {
  answer = storyReply;
  const story = await startJobStory(folder, String(upstream.url));
  await onStart(story);
  const lease = story.store.database.write.updateTable('jobs').set({ claimable_at: 1 });
  await lease.where('id', '=', id).where('status', '=', 'running').execute();
  for (;;) {
    await story.jobs.periodicTasks()[0]?.run();
    const { json } = await sendStory(story, 'GET', `/v1/jobs/${id}`);
    if (json.status === 'succeeded') return story;
    if (json.status !== 'running') throw new Error(JSON.stringify(json));
    await Bun.sleep(10);
  }
}

/** What the job cost once another gateway has ended it, and how often the provider was asked. */
async function billAfterSuccess(id: string, onStart: OnStart = async () => {}) {
  const story = await succeeded(id, onStart);
  const { json } = await sendStory(story, 'GET', `/v1/jobs/${id}`);
  await sendStory(story, 'GET', '/v1/customer/credits');
  const { read } = story.store.database;
  const rows = await read.selectFrom('request_log').selectAll().orderBy('id').execute();
  const accounts = await read.selectFrom('accounts').select('spent').execute();
  const wrong = await discrepancies(story.store.database);
  const { json: log } = await sendStory(story, 'GET', '/v1/customer/logs');
  await story.stop();
  return {
    calls,
    cost: json.cost,
    spent: accounts.map(({ spent }) => spent),
    rows: rows.map((row) => `${row.status} ${row.model_charge}`),
    named: jobsOf(log).every((job) => job === id),
    wrong,
  };
}

/** Of which job each row of the log says that it was a piece. */
function jobsOf({ logs }: Record<string, unknown>): readonly unknown[] {
  if (!Array.isArray(logs) || logs.length === 0) throw new Error('The log is empty.');
  return logs.map((row) => (isObject(row) ? row.job_id : undefined));
}

const paidOnce = { cost: 20, spent: [20], rows: ['success 20'], named: true, wrong: [] };

describe('a gateway that is killed', () => {
  test('while the provider works is followed by one that asks again', async () => {
    const dying = await startProcess();
    const reached = Promise.withResolvers<void>();
    answer = () => {
      reached.resolve();
      return new Promise<never>(() => {});
    };
    const id = await createStoryJob(dying);
    await reached.promise;
    await kill(dying);
    const rows = ['error 0', 'success 20'];
    expect(await billAfterSuccess(id)).toEqual({ ...paidOnce, calls: 2, rows });
  }, 120_000);

  test('after the charge, before the result is written down, charges no second time', async () => {
    const id = await killedAt('addPiece');
    expect(await billAfterSuccess(id)).toEqual({ ...paidOnce, calls: 2 });
  }, 120_000);

  test('after the last credits were charged is followed by one that needs no more', async () => {
    const id = await killedAt('addPiece');
    // Of the ten million of a first start, 20 were charged.
    const change = {
      tenantId: 'default',
      amount: -9_999_980,
      note: '',
      idempotencyKey: 'none left',
    };
    const bill = await billAfterSuccess(id, async ({ store }) => {
      await store.creditBook.change({ ...change, now: Date.now() });
    });
    expect(bill).toEqual({ ...paidOnce, calls: 2 });
  }, 120_000);

  test('before the job is ended does nothing twice', async () => {
    const id = await killedAt('finish');
    expect(await billAfterSuccess(id)).toEqual({ ...paidOnce, calls: 1 });
  }, 120_000);
});
