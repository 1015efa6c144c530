import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import type { Caller } from '../../src/core/caller.ts';
import { parseJson } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Webhook } from '../../src/jobs/queue.ts';
import { WebhookSigner } from '../../src/jobs/webhook-signer.ts';
import { type PostToUserUrl, WebhookSender } from '../../src/jobs/webhooks.ts';
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

const secret = new Secret('a secret of the operator, long enough');
let signer: WebhookSigner;

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
  signer = new WebhookSigner([secret], harness.store.jobs.webhookRotations);
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

/** Signs a received webhook as Standard Webhooks specifies. */
function signatureBy(secretText: string, message: Message | undefined): string {
  const key = Buffer.from(secretText.slice('whsec_'.length), 'base64');
  const header = (name: string) => message?.headers.get(name) ?? '';
  const signed = `${header('webhook-id')}.${header('webhook-timestamp')}.${message?.text}`;
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
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
    const { secret: text } = await signer.show(caller.tenantId, harness.now);
    expect(text).toMatch(/^whsec_/);
    expect(Buffer.from(text.slice('whsec_'.length), 'base64').length).toBe(32);
    expect(header('webhook-signature')).toBe(signatureBy(text, message));
    const other = await harness.newCaller();
    expect((await signer.show(other.tenantId, harness.now)).secret).not.toBe(text);
  });

  test('is signed with both secrets until the overlap of a rotation ends', async () => {
    const { tenantId } = caller;
    const before = await signer.show(tenantId, harness.now);
    const rotated = await signer.rotate(tenantId, { overlap_seconds: 60 }, harness.now);
    expect(before.previous_secret_expires_at).toBeNull();
    expect(rotated).toEqual({
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      previous_secret_expires_at: new Date(harness.now + 60_000).toISOString(),
    });
    expect(rotated.secret).not.toBe(before.secret);
    expect(await signer.show(tenantId, harness.now)).toEqual(rotated);
    const signatures = async () => {
      received = [];
      await endedJob();
      await send();
      return received[0]?.headers.get('webhook-signature') ?? '';
    };
    const both = await signatures();
    const byBoth = [rotated.secret, before.secret].map((text) => signatureBy(text, received[0]));
    expect(both).toBe(byBoth.join(' '));
    harness.now += 60_000;
    const afterwards = await signatures();
    expect(afterwards).toBe(signatureBy(rotated.secret, received[0]));
    expect(await signer.show(tenantId, harness.now)).toEqual({
      secret: rotated.secret,
      previous_secret_expires_at: null,
    });
  });

  test('is signed with the previous secret for a day unless the rotation says how long', async () => {
    const { tenantId } = caller;
    const { now } = harness;
    const { previous_secret_expires_at: until } = await signer.rotate(tenantId, {}, now);
    expect(until).toBe(new Date(now + 86_400_000).toISOString());
    const atOnce = await signer.rotate(tenantId, { overlap_seconds: 0 }, now);
    expect(atOnce.previous_secret_expires_at).toBeNull();
    const rotating = signer.rotate(tenantId, { overlap_seconds: 604_801 }, now);
    expect(rotating).rejects.toMatchObject({ param: 'overlap_seconds' });
  });

  test('is also signed with the secret of the previous secret key during its rotation', async () => {
    const current = new Secret('a new secret of the operator, long enough');
    const none = { number: 0, previousUntil: null };
    const rotations = { find: async () => none, rotate: async () => none };
    const [both, now, before] = [[current, secret], [current], [secret]].map(
      ([first = secret, ...rest]) => new WebhookSigner([first, ...rest], rotations),
    ) as [WebhookSigner, WebhookSigner, WebhookSigner];
    const signature = async (by: WebhookSigner) =>
      (await by.headers('ten_a', 'msg_1', 1_800_000_000_000, '{}'))['webhook-signature'];
    expect(await signature(both)).toBe(`${await signature(now)} ${await signature(before)}`);
    expect(await both.show('ten_a', 0)).toEqual(await now.show('ten_a', 0));
    // Tenants that verify webhooks since before secrets could be rotated keep theirs.
    expect(await before.show('ten_a', 0)).toMatchObject({
      secret: 'whsec_RxJEFCCdcnCKJUCpZinu8paONzWngrAHPxcxYhS2F14=',
    });
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
