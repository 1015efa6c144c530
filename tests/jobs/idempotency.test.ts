/** Transcription jobs with an `Idempotency-Key`. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type EmptyDatabase, engines } from '../contracts/engines.ts';
import { wavFile } from '../support/audio-files.ts';
import { InProcessGateway, type Reply, readReply } from '../support/in-process.ts';
import { JobServer } from '../support/job-server.ts';
import { waitUntil } from '../support/wait-until.ts';

type Fields = Readonly<Record<string, string>>;

const recording = wavFile(1);
const other = Uint8Array.from(recording);
other[other.length - 1] = 1 + (other.at(-1) ?? 0);

const german = { model: 'demo/transcribe', language: 'de' };

function formWith(audio: Uint8Array, fields: Fields = german, filename = 'a.wav'): FormData {
  const form = new FormData();
  for (const [field, value] of Object.entries(fields)) form.set(field, value);
  form.set('file', new File([audio.slice()], filename));
  return form;
}

describe.each([...engines])('Idempotency-Key of a transcription job on $name', ({ empty }) => {
  let database: EmptyDatabase;
  let gateway: InProcessGateway;

  beforeAll(async () => {
    database = await empty();
    const environment = { DATABASE_URL: database.url };
    const settings = { providers: {}, models: [], demo: true, environment };
    gateway = await InProcessGateway.start(settings);
  }, 120_000);

  afterAll(async () => {
    await gateway.stop();
    database.remove();
  });

  async function send(
    key: string,
    body: BunFetchRequestInit['body'],
    more: Fields = {},
  ): Promise<Reply> {
    const authorization = `Bearer ${gateway.keys.routing}`;
    const headers = { authorization, 'idempotency-key': key, ...more };
    return readReply(await fetch(`${gateway.url}/v1/jobs`, { method: 'POST', headers, body }));
  }

  /** Sends all but the last 100 bytes. The last bytes are sent when the test calls `finish`. */
  async function begin(key: string, form: FormData) {
    const encoded = new Response(form);
    const type = { 'content-type': encoded.headers.get('content-type') ?? '' };
    const bytes = await encoded.bytes();
    const finish = Promise.withResolvers<void>();
    async function* chunks() {
      yield bytes.subarray(0, -100);
      await finish.promise;
      yield bytes.subarray(-100);
    }
    const before = uploads().length;
    const reply = send(key, chunks, type);
    await waitUntil(() => uploads().length !== before);
    return { reply, finish: finish.resolve };
  }

  // Excludes the hidden file that holds the id of the folder.
  const files = () =>
    readdirSync(join(gateway.folder, 'objects')).filter((name) => !name.startsWith('.'));
  const uploads = () => files().filter((name) => name.endsWith('.wav.part'));
  const jobIds = async () => {
    const rows = await gateway.store.database.write.selectFrom('jobs').select('id').execute();
    return rows.map(({ id }) => id);
  };

  async function ended({ json }: Reply): Promise<void> {
    await waitUntil(async () => {
      const { status } = (await gateway.get(`/v1/jobs/${json.id}`)).json;
      return status !== 'queued' && status !== 'running';
    });
  }

  /** Returns the objects that don't belong to a job. */
  async function orphans(): Promise<string[]> {
    const ids = await jobIds();
    const { write } = gateway.store.database;
    const rows = await write.selectFrom('job_objects').select(['key', 'job_id']).execute();
    const owned = rows.filter(({ job_id: id }) => ids.includes(id)).map(({ key }) => key);
    return [...rows.map(({ key }) => key), ...files()].filter((key) => !owned.includes(key));
  }

  test('returns the first job only if the file and the fields are the same', async () => {
    const created = await send('same', formWith(recording));
    expect(created.status).toBe(202);
    await ended(created);
    const jobs = await jobIds();
    const reordered = { language: 'de', model: 'demo/transcribe' };
    for (const form of [formWith(recording), formWith(recording, reordered, 'b.wav')]) {
      const again = await send('same', form);
      expect([again.status, again.json.id]).toEqual([202, created.json.id]);
      expect(again.headers.get('idempotent-replayed')).toBe('true');
    }
    const english = { ...german, language: 'en' };
    for (const form of [formWith(other), formWith(recording, english)]) {
      const rejected = await send('same', form);
      expect([rejected.status, rejected.error.param]).toEqual([409, 'Idempotency-Key']);
    }
    expect([await jobIds(), await orphans()]).toEqual([jobs, []]);
  });

  test('creates one job if the request is repeated before the first upload ends', async () => {
    const jobs = await jobIds();
    const first = await begin('twice', formWith(recording));
    const second = await begin('twice', formWith(recording));
    const third = await begin('twice', formWith(other));
    // The first connection may be dead, so the second request doesn't wait for the first upload.
    second.finish();
    const created = await second.reply;
    expect([created.status, created.headers.get('idempotent-replayed')]).toEqual([202, null]);
    first.finish();
    third.finish();
    const again = await first.reply;
    expect([again.status, again.json.id]).toEqual([202, created.json.id]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect((await third.reply).status).toBe(409);
    await ended(created);
    expect(await jobIds()).toEqual(expect.arrayContaining([...jobs, String(created.json.id)]));
    expect([(await jobIds()).length, await orphans()]).toEqual([jobs.length + 1, []]);
  });

  test('creates one job for many simultaneous requests', async () => {
    const jobs = await jobIds();
    const sent = await Promise.all(
      Array.from({ length: 6 }, () => begin('concurrent', formWith(recording))),
    );
    for (const { finish } of sent) finish();
    const replies = await Promise.all(sent.map(({ reply }) => reply));
    expect(replies.map(({ status }) => status)).toEqual(sent.map(() => 202));
    expect(new Set(replies.map(({ json }) => json.id)).size).toBe(1);
    for (const reply of replies) await ended(reply);
    expect([(await jobIds()).length, await orphans()]).toEqual([jobs.length + 1, []]);
  });

  test('does not show the job to a key that may not use its model', async () => {
    const created = await send('closed', formWith(recording));
    await ended(created);
    const key = await gateway.makeKey({ models: ['other/*'] });
    const again = await send('closed', formWith(recording), { authorization: `Bearer ${key}` });
    expect([created.status, again.status, again.json.id]).toEqual([202, 403, undefined]);
  });

  test('can be used again after a rejected request', async () => {
    const rejected = await send('corrected', formWith(recording, { model: 'demo/nobody' }));
    expect([rejected.status, rejected.error.param]).toEqual([404, 'model']);
    expect(await orphans()).toEqual([]);
    const created = await send('corrected', formWith(recording));
    expect(created.status).toBe(202);
    await ended(created);
  });
});

test('no job is created if another process has taken over its Idempotency-Key', async () => {
  const server = await JobServer.start();
  const { database } = server.harness.store;
  const claim = { tenant_id: 'default', key: 'late', fingerprint: '', request_id: 'another' };
  const running = { is_done: 0 as const, recording: null, expires_at: server.harness.now + 30_000 };
  await database.write
    .insertInto('idempotency_claims')
    .values({ ...claim, ...running })
    .execute();
  const body = formWith(recording, { model: 'test/transcription' });
  const reply = await server.send('POST', '/v1/jobs', {
    body,
    headers: { 'idempotency-key': 'late' },
  });
  expect([reply.status, reply.error.param]).toEqual([409, 'Idempotency-Key']);
  expect((await server.send('GET', '/v1/jobs')).json.data).toEqual([]);
  expect(server.harness.storedObjects()).toEqual([]);
  expect(await database.read.selectFrom('job_objects').selectAll().execute()).toEqual([]);
  await server.stop();
}, 120_000);
