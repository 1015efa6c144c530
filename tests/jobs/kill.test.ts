/** Kills a gateway while it runs a job. Another gateway continues, charging each piece once. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../src/core/json.ts';
import {
  createTranscriptionJob,
  type JobGateway,
  sendToJobGateway,
  startJobGateway,
  transcriptionReply,
} from '../support/job-gateway.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const script = join(import.meta.dir, '../support/run-job-gateway.ts');

let folder: string;
let calls: number;
let answer: () => Response | Promise<Response>;
let upstream: Bun.Server<undefined>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-job-kill-'));
  calls = 0;
  answer = transcriptionReply;
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
      const { done, value } = await within(lines.read(), `${pattern} in: ${text}`, 60_000);
      if (done) throw new Error(`The process ended: ${text}`);
      text += value;
    }
  };
  return { url: await until(/http:\S+/), until, child };
}

async function kill({ child }: Awaited<ReturnType<typeof startProcess>>): Promise<void> {
  child.kill('SIGKILL');
  await within(child.exited, 'the process to exit', 60_000);
}

/** Kills a gateway at `step` of a job and returns the id of the job. */
async function killAt(step: string): Promise<string> {
  const victim = await startProcess(step);
  const id = await createTranscriptionJob(victim);
  await victim.until(/stalled/);
  await kill(victim);
  return id;
}

type OnStart = (gateway: JobGateway) => Promise<void>;

/** Starts a second gateway after the lease of the killed gateway has expired. */
async function finishJob(id: string, onStart: OnStart): Promise<JobGateway> {
  answer = transcriptionReply;
  const gateway = await startJobGateway(folder, String(upstream.url));
  await onStart(gateway);
  const lease = gateway.store.database.write.updateTable('jobs').set({ claimable_at: 1 });
  await lease.where('id', '=', id).where('status', '=', 'running').execute();
  await waitUntil(async () => {
    await gateway.jobs.periodicTasks()[0]?.run();
    const { json } = await sendToJobGateway(gateway, 'GET', `/v1/jobs/${id}`);
    if (json.status === 'succeeded') return true;
    if (json.status !== 'running') throw new Error(JSON.stringify(json));
    return false;
  });
  return gateway;
}

/** Finishes the job on another gateway. Returns its cost and the number of provider calls. */
async function billAfterSuccess(id: string, onStart: OnStart = async () => {}) {
  const gateway = await finishJob(id, onStart);
  const { json } = await sendToJobGateway(gateway, 'GET', `/v1/jobs/${id}`);
  await sendToJobGateway(gateway, 'GET', '/v1/customer/credits');
  const { read } = gateway.store.database;
  const rows = await read.selectFrom('request_log').selectAll().orderBy('id').execute();
  const accounts = await read.selectFrom('accounts').select('spent').execute();
  const found = await discrepancies(gateway.store.database);
  const { json: log } = await sendToJobGateway(gateway, 'GET', '/v1/customer/logs');
  await gateway.stop();
  return {
    calls,
    cost: json.cost,
    spent: accounts.map(({ spent }) => spent),
    rows: rows.map((row) => `${row.status} ${row.model_charge}`),
    isLinked: jobIdsOf(log).every((job) => job === id),
    discrepancies: found,
  };
}

/** Returns the job_id of each log row. */
function jobIdsOf({ logs }: Record<string, unknown>): readonly unknown[] {
  if (!Array.isArray(logs) || logs.length === 0) throw new Error('The log is empty.');
  return logs.map((row) => (isObject(row) ? row.job_id : undefined));
}

const chargedOnce = {
  ...{ cost: 20, spent: [20], rows: ['success 20'] },
  ...{ isLinked: true, discrepancies: [] },
};

describe('after a gateway was killed', () => {
  test('another gateway repeats the provider call that was in progress', async () => {
    const victim = await startProcess();
    const reached = Promise.withResolvers<void>();
    answer = () => {
      reached.resolve();
      return new Promise<never>(() => {});
    };
    const id = await createTranscriptionJob(victim);
    await within(reached.promise, 'the step');
    await kill(victim);
    const rows = ['error 0', 'success 20'];
    expect(await billAfterSuccess(id)).toEqual({ ...chargedOnce, calls: 2, rows });
  }, 120_000);

  test('a piece is charged once if it was charged but its result was not stored', async () => {
    const id = await killAt('addPiece');
    expect(await billAfterSuccess(id)).toEqual({ ...chargedOnce, calls: 2 });
  }, 120_000);

  test('another gateway needs no credits for an already charged piece', async () => {
    const id = await killAt('addPiece');
    // 20 of the initial 10,000,000 credits were charged.
    const change = {
      tenantId: 'default',
      amount: -9_999_980,
      note: '',
      idempotencyKey: 'none left',
    };
    const bill = await billAfterSuccess(id, async ({ store }) => {
      await store.creditStore.change({ ...change, now: Date.now() });
    });
    expect(bill).toEqual({ ...chargedOnce, calls: 2 });
  }, 120_000);

  test('another gateway repeats no calls if all results were stored', async () => {
    const id = await killAt('finish');
    expect(await billAfterSuccess(id)).toEqual({ ...chargedOnce, calls: 1 });
  }, 120_000);
});
