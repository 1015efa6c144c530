/** A job whose making the store did not tell the end of: its connection broke at the commit. */
import { afterAll, afterEach, beforeAll, expect, spyOn, test } from 'bun:test';
import { SqlJobBook } from '../../src/store/jobs/jobs.ts';
import { wavFile } from '../support/audio-files.ts';
import { InProcessGateway, type Reply, readReply } from '../support/in-process.ts';

let gateway: InProcessGateway;
let restore = () => {};

beforeAll(async () => {
  const settings = { providers: {}, models: [], demo: true };
  gateway = await InProcessGateway.start(settings);
}, 120_000);
afterEach(() => restore());
afterAll(() => gateway.stop());

/** The next job is made, and nobody hears of it. */
function loseNextAnswer(): void {
  const { enqueue } = SqlJobBook.prototype;
  const spy = spyOn(SqlJobBook.prototype, 'enqueue').mockImplementationOnce(async function (
    this: SqlJobBook,
    ...order
  ) {
    await enqueue.apply(this, order);
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

async function ended(id: unknown): Promise<Reply> {
  for (;;) {
    const reply = await gateway.get(`/v1/jobs/${id}`);
    if (reply.json.status !== 'queued' && reply.json.status !== 'running') return reply;
    await Bun.sleep(20);
  }
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
  'of %s is the one that its Idempotency-Key leads to, and is done',
  async (name, body) => {
    loseNextAnswer();
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
