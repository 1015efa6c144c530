/** Jobs through the full gateway: pieces are routed, charged, and logged like other requests. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fieldsOf, isObject } from '../../src/core/json.ts';
import {
  type DispatchedRequest,
  type JournalLine,
  readLines,
  unfinishedSettlement,
} from '../../src/money/settle/journal-files.ts';
import { replayJournals } from '../../src/money/settle/replay.ts';
import { wavFile } from '../support/audio-files.ts';
import { type Reply, readReply } from '../support/in-process.ts';
import {
  createTranscriptionJob,
  type JobGateway,
  jobGatewayKeys as keys,
  sendToJobGateway,
  startJobGateway,
  transcriptionReply,
} from '../support/job-gateway.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { journalLine } from '../support/money/journal-line.ts';
import { waitUntil } from '../support/wait-until.ts';

let folder: string;
let gateway: JobGateway;
let answers: (() => Response | Promise<Response>)[];
let calls = 0;
let upstream: Bun.Server<undefined>;

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => {
      calls += 1;
      return (answers.shift() ?? transcriptionReply)();
    },
  });
  folder = mkdtempSync(join(tmpdir(), 'tollgate-jobs-'));
  gateway = await startJobGateway(folder, String(upstream.url));
}, 120_000);

afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
  rmSync(folder, { recursive: true });
});

beforeEach(() => {
  answers = [];
  calls = 0;
});

const send = (method: string, path: string, body?: FormData, key?: string) =>
  sendToJobGateway(gateway, method, path, body, key);
const create = () => createTranscriptionJob(gateway);

/** Runs the worker and waits until the job is no longer running. */
async function runJob(id: string): Promise<Reply> {
  await gateway.jobs.periodicTasks()[0]?.run();
  return waitUntil(async () => {
    const found = await send('GET', `/v1/jobs/${id}`);
    return found.json.status !== 'running' && found;
  });
}

async function balance(): Promise<number> {
  const { json } = await send('GET', '/v1/customer/credits');
  return isObject(json.balance) ? Number(json.balance.total) : Number.NaN;
}

describe('a job', () => {
  test('is routed, charged, and logged like other requests', async () => {
    const before = await balance();
    const id = await create();
    const { json } = await runJob(id);
    expect(json).toMatchObject({ status: 'succeeded', cost: 20, progress: 1 });
    const output = isObject(json.output) ? json.output : {};
    const transcript = await fetch(String(output.url));
    expect(transcript.status).toBe(200);
    expect(await transcript.text()).toContain('Heard.');
    expect(await balance()).toBe(before - 20);
    const { json: page } = await send('GET', '/v1/customer/logs?limit=1');
    const [row] = Array.isArray(page.logs) ? page.logs : [];
    expect(row).toMatchObject({ status: 'success', provider: 'acme' });
    expect(JSON.stringify(row)).toContain('"acme/hear"');
    expect(await discrepancies(gateway.store.database)).toEqual([]);
  });

  test('is requeued without a charge when the provider fails', async () => {
    const before = await balance();
    answers = [() => new Response('no', { status: 500 })];
    const id = await create();
    const { json } = await runJob(id);
    expect(json).toMatchObject({ status: 'queued', cost: 0, error: null });
    expect(await balance()).toBe(before);
    await send('DELETE', `/v1/jobs/${id}`);
  });

  test('fails when its key was deleted', async () => {
    const id = await create();
    const [key] = await gateway.store.directory.listKeys('default', {
      ...{ limit: 10, offset: 0, includeDisabled: true },
    });
    const { write } = gateway.store.database;
    const owner = { key_id: 'key_deleted00000000' };
    await write.updateTable('jobs').set(owner).where('id', '=', id).execute();
    expect(key?.id).not.toBe(owner.key_id);
    const { json } = await runJob(id);
    expect(json).toMatchObject({
      status: 'failed',
      error: {
        message: 'The API key of this job has been deleted.',
        type: 'invalid_api_key',
        code: 401,
      },
    });
  });

  test('is rejected if its model is unknown or lacks the feature', async () => {
    const form = (model: string) => {
      const body = new FormData();
      body.set('file', new File([wavFile(1).slice()], 'a.wav'));
      body.set('model', model);
      return body;
    };
    const unknown = await send('POST', '/v1/jobs', form('acme/heer'));
    expect([unknown.status, unknown.error.param]).toEqual([404, 'model']);
    expect(unknown.error.message).toBe('There is no model "acme/heer"; did you mean "acme/hear"?');
    const speech = await readReply(
      await fetch(`${gateway.url}/v1/jobs`, {
        method: 'POST',
        headers: { authorization: `Bearer ${keys.routing}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'acme/hear', input: 'Hello.', voice: 'alloy' }),
      }),
    );
    expect([speech.status, speech.error.type]).toEqual([400, 'model_capability_mismatch']);
    expect(speech.error.message).toBe('The model "acme/hear" is not a speech model.');
  });

  test('has a webhook secret that a management key can read and rotate', async () => {
    const path = '/api/v1/webhook-secret';
    const { status, json } = await send('GET', path, undefined, keys.management);
    expect([status, json.data]).toEqual([
      200,
      {
        secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
        previous_secret_expires_at: null,
      },
    ]);
    const rotated = await send('POST', `${path}/rotate`, undefined, keys.management);
    expect([rotated.status, rotated.json.data]).toEqual([
      200,
      {
        secret: expect.not.stringContaining(String(fieldsOf(json.data).secret)),
        previous_secret_expires_at: expect.any(String),
      },
    ]);
  });
});

describe('a piece that another worker repeats after a crash', () => {
  /** Replays a journal of the crashed worker with lines made from the last dispatched call. */
  async function replay(linesFor: (call: DispatchedRequest) => JournalLine[]): Promise<void> {
    const root = join(folder, 'journal');
    const names = readdirSync(root, { recursive: true, encoding: 'utf8' });
    const files = names.filter((name) => name.endsWith('.jsonl')).toSorted();
    const lines = files.flatMap((name) => [...readLines(readFileSync(join(root, name), 'utf8'))]);
    const sent = lines.flatMap((line) => (line.kind === 'dispatched' ? [line.call] : [])).at(-1);
    if (!sent) throw new Error('The piece was never sent.');
    const call = { ...sent, createdAt: sent.createdAt - 90_000 };
    const otherRoot = join(folder, 'elsewhere');
    const crashed = join(otherRoot, 'gone~1~gone-process');
    mkdirSync(crashed, { recursive: true });
    const left = linesFor(call).map((line) => journalLine(JSON.stringify(line)));
    writeFileSync(join(crashed, '00000000.jsonl'), left.join(''));
    utimesSync(crashed, 1, 1);
    expect(await replayJournals(otherRoot, gateway.store.ledger, Date.now())).toBe(1);
  }

  const unsettled = (call: DispatchedRequest): JournalLine[] => [{ kind: 'dispatched', call }];

  /** The crashed worker also charged 20 credits, but couldn't book them. */
  const settled = (call: DispatchedRequest): JournalLine[] => {
    const { record, ...rest } = unfinishedSettlement(call);
    const charges = { ...record.charges, modelCharge: 20 };
    const paid = { ...record, status: 'success', error: null, charges, note: null } as const;
    return [...unsettled(call), { kind: 'settled', settlement: { ...rest, record: paid } }];
  };

  async function runDuringReplay(linesFor: (call: DispatchedRequest) => JournalLine[]) {
    const before = await balance();
    answers = [() => replay(linesFor).then(transcriptionReply)];
    const { json } = await runJob(await create());
    expect(json).toMatchObject({ status: 'succeeded', cost: 20 });
    expect(await discrepancies(gateway.store.database)).toEqual([]);
    return { spent: before - (await balance()), calls };
  }

  test('is charged under a new id when the replay recorded it as free', async () => {
    expect(await runDuringReplay(unsettled)).toEqual({ spent: 20, calls: 2 });
    const { json } = await send('GET', '/v1/customer/logs?limit=2');
    const [charged, crashed] = Array.isArray(json.logs) ? json.logs : [];
    expect(charged).toMatchObject({ status: 'success', cost: 20 });
    expect(crashed).toMatchObject({ status: 'error', cost: 0 });
  });

  test('is charged once when the replay recorded its charge first', async () => {
    expect(await runDuringReplay(settled)).toEqual({ spent: 20, calls: 1 });
  });

  test('is not charged again by a replay after it finished', async () => {
    const before = await balance();
    expect((await runJob(await create())).json).toMatchObject({ status: 'succeeded', cost: 20 });
    expect(await balance()).toBe(before - 20);
    await replay(unsettled);
    expect(await balance()).toBe(before - 20);
  });
});
