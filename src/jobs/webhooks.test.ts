import { expect, test } from 'bun:test';
import { speechJob } from '../../tests/support/speech-job.ts';
import { Secret } from '../core/secret.ts';
import type { Webhook } from './queue.ts';
import { type PostToUserUrl, WebhookSender, WebhookSigner } from './webhooks.ts';

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

/** What becomes of a message that is answered so. */
async function outcomeOf(answer: Awaited<ReturnType<PostToUserUrl>>): Promise<readonly string[]> {
  const heard: string[] = [];
  const due = [webhook];
  const sender = new WebhookSender({
    queue: {
      claim: async () => due.shift(),
      retry: async (id, dueAt) => void heard.push(`${id} again at ${dueAt}`),
      remove: async (id) => void heard.push(`${id} removed`),
    },
    jobs: { find: async () => job },
    storage: { link: () => '' },
    signer: new WebhookSigner(new Secret('a secret of the operator, long enough')),
    post: async () => answer,
    baseUrl: () => 'https://gate.example',
    onDropped: () => void heard.push('given up'),
    now: () => 1_000,
  });
  await sender.send();
  await sender.idle();
  return heard;
}

test('a message that nobody answers is not taken, and comes again', async () => {
  const unreached = { ok: false, reason: "The server can't be reached." } as const;
  expect(await outcomeOf(unreached)).toEqual(['msg_1 again at 6000']);
});

test.each([
  [199, 'msg_1 again at 6000'],
  [200, 'msg_1 removed'],
  [299, 'msg_1 removed'],
  [300, 'msg_1 again at 6000'],
])('one that is answered with %d is: %s', async (status, outcome) => {
  expect(await outcomeOf({ ok: true, status })).toEqual([outcome]);
});
