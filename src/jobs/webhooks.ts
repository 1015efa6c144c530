import { concurrentWebhooksMax, webhookMsMax, webhooksPerTenantMax } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { jobObject } from './job.ts';
import type { ObjectStorage } from './object-storage.ts';
import { type JobStore, tenantsAtLimit, type Webhook, type WebhookQueue } from './queue.ts';
import type { WebhookSigner } from './webhook-signer.ts';

/** Calls a user-supplied URL under the address policy. `ok` is true if a response arrived. */
export type PostToUserUrl = (
  url: string,
  call: {
    readonly tenantId: string;
    readonly method: 'POST';
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly bodyBytesMax: number;
    readonly timeoutMs: number;
  },
) => Promise<
  { readonly ok: true; readonly status: number } | { readonly ok: false; readonly reason: string }
>;

interface WebhookDeps {
  readonly queue: WebhookQueue;
  readonly jobs: Pick<JobStore, 'find'>;
  readonly storage: Pick<ObjectStorage, 'link'>;
  readonly signer: Pick<WebhookSigner, 'headers'>;
  readonly post: PostToUserUrl;
  /** Returns the URL of this gateway for the links in a webhook. */
  baseUrl(): string;
  /** Called when a webhook is dropped after its last attempt. */
  onDropped(webhook: Webhook): void;
  now(): number;
}

const everyMs = 1_000;

/** If a process crashes while sending, another process resends the webhook after this time. */
const claimMs = 60_000;

/** Delays between attempts, as in Standard Webhooks. After the last attempt, it is dropped. */
const retryDelaysMs = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map(
  (seconds) => seconds * 1000,
);

/** 410 Gone: the receiver wants no more webhooks at this URL. */
const status410 = 410;

/** Delivers webhooks about ended jobs, with retries until the receiver confirms. */
export class WebhookSender {
  readonly #deps: WebhookDeps;
  readonly #inFlight = new Map<string, { tenantId: string; done: Promise<void> }>();
  #isStopped = false;

  constructor(deps: WebhookDeps) {
    this.#deps = deps;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs, run: () => this.send() }];
  }

  /** Starts sending all webhooks that are due, up to the concurrency limit. */
  async send(): Promise<void> {
    while (!this.#isStopped && this.#inFlight.size < concurrentWebhooksMax) {
      const now = this.#deps.now();
      const tenants = [...this.#inFlight.values()].map(({ tenantId }) => tenantId);
      const exceptTenants = tenantsAtLimit(tenants, webhooksPerTenantMax);
      const webhook = await this.#deps.queue.claim({ now, until: now + claimMs, exceptTenants });
      if (!webhook) return;
      const { id, tenantId } = webhook;
      const done = this.#deliver(webhook)
        // The store is unreachable. The webhook becomes due again when its claim expires.
        .catch(() => undefined)
        .finally(() => this.#inFlight.delete(id));
      this.#inFlight.set(id, { tenantId, done });
    }
  }

  /** Resolves when all webhooks in flight have been delivered or have failed. */
  async idle(): Promise<void> {
    await Promise.all([...this.#inFlight.values()].map(({ done }) => done));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.idle();
  }

  async #deliver(webhook: Webhook): Promise<void> {
    const { queue, now, onDropped } = this.#deps;
    const body = await this.#bodyOf(webhook);
    const status = body === undefined ? status410 : await this.#post(webhook, body);
    if (status >= 200 && status < 300) return queue.remove(webhook.id);
    const waitMs = status === status410 ? undefined : retryDelaysMs[webhook.attempts - 1];
    if (waitMs !== undefined) return queue.retry(webhook.id, now() + waitMs);
    onDropped(webhook);
    return queue.remove(webhook.id);
  }

  /** Returns the status of the response, or 0 if there was none. */
  async #post({ id, tenantId, url }: Webhook, body: string): Promise<number> {
    const { post, signer, now } = this.#deps;
    const answer = await post(url, {
      tenantId,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(await signer.headers(tenantId, id, now(), body)),
      },
      body,
      // The body doesn't matter: a 2xx status confirms the delivery.
      bodyBytesMax: 0,
      timeoutMs: webhookMsMax,
    });
    return answer.ok ? answer.status : 0;
  }

  /** Returns a new body for each attempt, so that its download link is fresh. */
  async #bodyOf({ tenantId, jobId, event, createdAt }: Webhook): Promise<string | undefined> {
    const { jobs, storage, now, baseUrl } = this.#deps;
    const job = await jobs.find(tenantId, jobId);
    if (!job) return undefined;
    const data = jobObject(job, { now: now(), baseUrl: baseUrl(), storage });
    return JSON.stringify({ type: event, timestamp: new Date(createdAt).toISOString(), data });
  }
}
