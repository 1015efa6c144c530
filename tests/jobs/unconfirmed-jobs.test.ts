/** The store's connection breaks while a new job is committed, so the outcome is unknown. */
import { afterAll, afterEach, beforeAll, expect, spyOn, test } from 'bun:test';
import { SqlJobs } from '../../src/store/jobs/jobs.ts';
import { wavFile } from '../support/audio-files.ts';
import { InProcessGateway, type Reply, readReply } from '../support/in-process.ts';
import { waitUntil } from '../support/wait-until.ts';

let gateway: InProcessGateway;
let restore = () => {};

beforeAll(async () => {
  const settings = { providers: {}, models: [], demo: true };
  gateway = await InProcessGateway.start(settings);
}, 120_000);
afterEach(() => restore());
afterAll(() => gateway.stop());

/** Makes the next enqueue succeed in the store, but fail for its caller. */
function loseNextResult(): void {
  const { enqueue } = SqlJobs.prototype;
  const spy = spyOn(SqlJobs.prototype, 'enqueue').mockImplementationOnce(async function (
    this: SqlJobs,
    ...args
  ) {
    await enqueue.apply(this, args);
    throw new Error('Connection terminated unexpectedly');
  });
  restore = () => spy.mockRestore();
}

async function send(body: FormData | string, key: string): Promise<Reply> {
  const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
  const authorization = `Bearer ${gateway.keys.routing}`;
  const headers = { authorization, 'idempotency-key': key, ...type };
  return readReply(await fetch(`${gateway.url}/v1/jobs`, { method: 'POST', headers, body }));
}

function ended(id: unknown): Promise<Reply> {
  return waitUntil(async () => {
    const reply = await gateway.get(`/v1/jobs/${id}`);
    return reply.json.status !== 'queued' && reply.json.status !== 'running' && reply;
  });
}

const form = () => {
  const fields = new FormData();
  fields.set('model', 'demo/transcribe');
  fields.set('file', new File([wavFile(1).slice()], 'a.wav'));
  return fields;
};
const text = () => JSON.stringify({ model: 'demo/speech', voice: 'alloy', input: 'All is well.' });

test.each([
  ['a text', text],
  ['a recording', form],
] as const)(
  'a job of %s whose creation was not confirmed is found by its Idempotency-Key',
  async (name, body) => {
    loseNextResult();
    const jobs = () => gateway.store.database.write.selectFrom('jobs').select('id').execute();
    const before = (await jobs()).length;
    expect((await send(body(), name.replace(' ', '-'))).status).toBe(503);
    const again = await send(body(), name.replace(' ', '-'));
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([202, 'true']);
    expect((await ended(again.json.id)).json).toMatchObject({ status: 'succeeded', error: null });
    expect((await jobs()).length).toBe(before + 1);
  },
  120_000,
);
