import { describe, expect, test } from 'bun:test';
import { speechJob } from '../../tests/support/speech-job.ts';
import type { Webhook } from './queue.ts';
import { type PostToUserUrl, WebhookSender } from './webhooks.ts';

const webhook: Webhook = {
  id: 'msg_1',
  jobId: 'job_1',
  tenantId: 'ten_1',
  url: 'https://hooks.example/',
  event: 'job.failed',
  attempts: 1,
  createdAt: 0,
};

const job = speechJob({
  webhookUrl: webhook.url,
  status: 'failed',
  output: null,
  failure: { message: 'No.', type: 'upstream_error', code: 502 },
  expiresAt: null,
});

/** Sends a webhook whose receiver returns this response. */
async function outcomeOf(answer: Awaited<ReturnType<PostToUserUrl>>): Promise<readonly string[]> {
  const events: string[] = [];
  const due = [webhook];
  const sender = new WebhookSender({
    queue: {
      claim: async () => due.shift(),
      retry: async (id, dueAt) => void events.push(`retry ${id} at ${dueAt}`),
      remove: async (id) => void events.push(`remove ${id}`),
    },
    jobs: { find: async () => job },
    storage: { link: () => '' },
    signer: { headers: async () => ({}) },
    post: async () => answer,
    baseUrl: () => 'https://gate.example',
    onDropped: () => void events.push('dropped'),
    now: () => 1_000,
  });
  await sender.send();
  await sender.idle();
  return events;
}

describe('WebhookSender', () => {
  test('retries a webhook if the receiver is unreachable', async () => {
    const unreachable = { ok: false, reason: "The server can't be reached." } as const;
    expect(await outcomeOf(unreachable)).toEqual(['retry msg_1 at 6000']);
  });

  test.each([
    [199, 'retry msg_1 at 6000'],
    [200, 'remove msg_1'],
    [299, 'remove msg_1'],
    [300, 'retry msg_1 at 6000'],
  ])('after status %d, calls %s', async (status, outcome) => {
    expect(await outcomeOf({ ok: true, status })).toEqual([outcome]);
  });
});
