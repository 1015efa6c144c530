import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import type { Caller } from '../../src/core/caller.ts';
import { parseJson } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Webhook } from '../../src/jobs/queue.ts';
import { type PostToUserUrl, WebhookSender, WebhookSigner } from '../../src/jobs/webhooks.ts';
import { createGuardedFetch } from '../../src/upstream/guard/guarded-fetch.ts';
import { JobHarness } from '../support/job-harness.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Message {
  readonly headers: Headers;
  readonly text: string;
}

const chunk = new Uint8Array(1024);

let harness: JobHarness;
let caller: Caller;
let received: Message[];
let answer: (message: Message) => Response | Promise<Response>;
let receiver: Bun.Server<undefined>;
let dropped: Webhook[];
let sender: WebhookSender;

const signer = new WebhookSigner(new Secret('a secret of the operator, long enough'));

function makeSender(post?: PostToUserUrl): WebhookSender {
  const allowed = `127.0.0.1:${receiver.port}`;
  return new WebhookSender({
    queue: harness.store.jobs.webhooks,
    jobs: harness.store.jobs.store,
    storage: harness.storage,
    signer,
    post: post ?? createGuardedFetch({ allowHosts: [allowed] }),
    baseUrl: () => 'https://gate.example',
    onDropped: (webhook) => dropped.push(webhook),
    now: () => harness.now,
  });
}

beforeEach(async () => {
  harness = await JobHarness.open();
  caller = await harness.newCaller();
  received = [];
  dropped = [];
  answer = () => new Response('thanks');
  receiver = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const message = { headers: request.headers, text: await request.text() };
      received.push(message);
      return answer(message);
    },
  });
  sender = makeSender();
});

afterEach(async () => {
  await receiver.stop(true);
  await harness.close();
});

/** Runs a job. Writes its webhook URL directly to the store, to skip the check of the address. */
async function endedJob(path = '/hook', who = caller): Promise<string> {
  const id = await harness.speech(who, 'Short.', { webhook_url: 'https://hooks.example/' });
  const url = path.startsWith('/') ? `http://127.0.0.1:${receiver.port}${path}` : path;
  const { write } = harness.store.database;
  await write.updateTable('jobs').set({ webhook_url: url }).where('id', '=', id).execute();
  await harness.runJobs();
  return id;
}

async function send(from = sender): Promise<void> {
  await from.send();
  await from.idle();
}

describe('a webhook', () => {
  test('contains the ended job with a fresh link', async () => {
    const id = await endedJob();
    harness.now += 5_000;
    await send();
    expect(received.length).toBe(1);
    expect(received[0]?.headers.get('content-type')).toBe('application/json');
    expect(parseJson(received[0]?.text ?? '')).toMatchObject({
      type: 'job.succeeded',
      timestamp: '2027-01-15T08:00:00.000Z',
      data: {
        id,
        object: 'job',
        status: 'succeeded',
        cost: 12,
        polling_url: `https://gate.example/v1/jobs/${id}`,
        output: {
          url: expect.stringMatching(/^https:\/\/gate\.example\/v1\/objects\/\w+\.wav\?expires=/),
          url_expires_at: '2027-01-15T09:00:05.000Z',
        },
      },
    });
    await send();
    expect(received.length).toBe(1);
  });

  test('is also sent for a cancellation', async () => {
    const id = await harness.speech(caller, 'Short.', { webhook_url: 'https://hooks.example/' });
    await harness.service.cancel(caller.tenantId, id, '');
    const urls: string[] = [];
    await send(
      makeSender(async (url, { body }) => {
        urls.push(url);
        expect(parseJson(body)).toMatchObject({ type: 'job.cancelled', data: { id } });
        return { ok: true, status: 204 };
      }),
    );
    expect(urls).toEqual(['https://hooks.example/']);
  });

  test('is signed as Standard Webhooks specifies, with the secret of its tenant', async () => {
    await endedJob();
    await send();
    const [message] = received;
    const header = (name: string) => message?.headers.get(name) ?? '';
    expect(header('webhook-id')).toMatch(/^msg_[0-9a-z]{24}$/);
    expect(header('webhook-timestamp')).toBe('1800000000');
    const secret = signer.secretOf(caller.tenantId);
    expect(secret).toMatch(/^whsec_/);
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    expect(key.length).toBe(32);
    const signed = `${header('webhook-id')}.${header('webhook-timestamp')}.${message?.text}`;
    const expected = createHmac('sha256', key).update(signed).digest('base64');
    expect(header('webhook-signature')).toBe(`v1,${expected}`);
    const other = await harness.newCaller();
    expect(signer.secretOf(other.tenantId)).not.toBe(secret);
  });

  test('is also signed with the previous secret during a rotation', () => {
    const previous = new Secret('a secret of the operator, long enough');
    const current = new Secret('a new secret of the operator, long enough');
    const both = new WebhookSigner(current, previous);
    const signatureBy = (by: WebhookSigner) =>
      by.headers('ten_a', 'msg_1', 1_800_000_000_000, '{}')['webhook-signature'];
    const [now, before] = [new WebhookSigner(current), new WebhookSigner(previous)];
    expect(signatureBy(both)).toBe(`${signatureBy(now)} ${signatureBy(before)}`);
    expect(both.secretOf('ten_a')).toBe(now.secretOf('ten_a'));
    expect(both.secretOf('ten_a')).not.toBe(before.secretOf('ten_a'));
  });

  test('waits while its tenant is disabled', async () => {
    const { directory } = harness.store;
    await endedJob();
    await directory.changeTenant(caller.tenantId, { disabled: true }, harness.now);
    await send();
    expect(received).toEqual([]);
    await directory.changeTenant(caller.tenantId, { disabled: false }, harness.now);
    await send();
    expect(received.length).toBe(1);
  });

  test('is retried with the same id and growing delays until it is delivered', async () => {
    await endedJob();
    answer = () => new Response('no', { status: 500 });
    const waits = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
    await send();
    for (const [index, seconds] of waits.entries()) {
      harness.now += seconds * 1000 - 1;
      await send();
      expect(received.length).toBe(index + 1);
      harness.now += 1;
      if (index === 5) answer = () => new Response(null, { status: 204 });
      await send();
      expect(received.length).toBe(index + 2);
      if (index === 5) break;
    }
    harness.now += 100 * 3_600_000;
    await send();
    expect(received.length).toBe(7);
    expect(new Set(received.map(({ headers }) => headers.get('webhook-id'))).size).toBe(1);
    expect(new Set(received.map(({ headers }) => headers.get('webhook-timestamp'))).size).toBe(7);
    expect(dropped).toEqual([]);
  });

  test('is dropped after 8 attempts', async () => {
    const jobId = await endedJob();
    answer = () => new Response('no', { status: 503 });
    for (let attempt = 0; attempt < 12; attempt += 1) {
      await send();
      harness.now += 36_000_000;
    }
    expect(received.length).toBe(8);
    expect(dropped).toMatchObject([{ jobId, attempts: 8 }]);
  });

  test('is dropped without a retry after status 410', async () => {
    await endedJob();
    answer = () => new Response('gone', { status: 410 });
    await send();
    harness.now += 36_000_000;
    await send();
    expect([received.length, dropped.length]).toEqual([1, 1]);
  });

  test('does not follow a redirect, and is retried after one', async () => {
    await endedJob('/moved');
    answer = () => Response.redirect(`http://127.0.0.1:${receiver.port}/elsewhere`, 302);
    await send();
    expect(received.length).toBe(1);
    harness.now += 5_000;
    await send();
    expect(received.length).toBe(2);
  });

  test.each([
    'http://127.0.0.1:1/',
    'http://[::1]/',
    'http://169.254.169.254/',
    'http://10.0.0.1/',
  ])('never reaches %s, even if the address changed after the check', async (address) => {
    await endedJob(address);
    const wasOk: boolean[] = [];
    const guarded = createGuardedFetch({});
    const recordingSender = makeSender(async (url, call) => {
      const result = await guarded(url, call);
      wasOk.push(result.ok);
      return result;
    });
    await send(recordingSender);
    expect(wasOk).toEqual([false]);
    expect(received).toEqual([]);
  });

  test('is sent with a short timeout, and the response body is not read', async () => {
    await endedJob();
    const bounds: (readonly [number, number])[] = [];
    await send(
      makeSender(async (_, { bodyBytesMax, timeoutMs }) => {
        bounds.push([bodyBytesMax, timeoutMs]);
        return { ok: true, status: 200 };
      }),
    );
    expect(bounds).toEqual([[0, 10_000]]);
  });

  test.each([
    ['long', () => new Response(new Uint8Array(1024 * 1024))],
    ['endless', () => new Response(new ReadableStream({ pull: (body) => body.enqueue(chunk) }))],
    ['silent', () => new Response(new ReadableStream({ start: (body) => body.enqueue(chunk) }))],
    ['compressed', () => new Response(chunk, { headers: { 'content-encoding': 'br' } })],
  ])('counts as delivered after status 200, even if the body is %s', async (_, reply) => {
    await endedJob();
    answer = reply;
    await send();
    expect(received.length).toBe(1);
    const rows = await harness.store.database.read.selectFrom('webhooks').selectAll().execute();
    expect(rows).toEqual([]);
  });

  test("is not delayed by another tenant's slow receivers", async () => {
    const gate = Promise.withResolvers<void>();
    for (let index = 0; index < 6; index += 1) await endedJob('/slow');
    answer = async () => {
      await gate.promise;
      return new Response('at last');
    };
    await sender.send();
    await waitUntil(() => received.length >= 4);
    const other = await harness.newCaller();
    const id = await endedJob('/quick', other);
    await sender.send();
    await waitUntil(() => received.length >= 5);
    expect(received[4]?.text).toContain(id);
    gate.resolve();
    await sender.idle();
    expect(received.length).toBe(5);
  });

  test('is sent again if its process crashed while sending', async () => {
    await endedJob();
    const crashed = makeSender(() => new Promise(() => {}));
    await crashed.send();
    await send();
    expect(received.length).toBe(0);
    harness.now += 60_000;
    await send();
    expect(received.length).toBe(1);
  });
});
