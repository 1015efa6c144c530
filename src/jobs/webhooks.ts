import { createHmac } from 'node:crypto';
import { concurrentWebhooksMax, webhookMsMax, webhooksPerTenantMax } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { derivedKeys, type SecretKeys } from '../core/secret.ts';
import { jobObject } from './job.ts';
import type { ObjectStorage } from './objects.ts';
import { type JobStore, tenantsAtLimit, type Webhook, type WebhookQueue } from './queue.ts';

/** Calls an address that a user gave, in the guarded way; `ok` means that an answer arrived. */
export type PostToUserUrl = (
  url: string,
  call: {
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
  readonly signer: WebhookSigner;
  readonly post: PostToUserUrl;
  /** Where receivers reach this gateway, for the links in a message. */
  baseUrl(): string;
  /** Called with a message that no attempt brought to its receiver. */
  onDropped(webhook: Webhook): void;
  now(): number;
}

const everyMs = 1_000;

/** When a process dies while it sends, another one sends again after this time. */
const claimMs = 60_000;

/** Waits after failed attempts, as Standard Webhooks recommends; then the message is dropped. */
const retryDelaysMs = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map(
  (seconds) => seconds * 1000,
);

const statusRemoved = 410;

/** Tells receivers how jobs ended, again and again until they say that they have it. */
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

  /** Starts every message that is due, as far as there are places. */
  async send(): Promise<void> {
    while (!this.#isStopped && this.#inFlight.size < concurrentWebhooksMax) {
      const now = this.#deps.now();
      const tenants = [...this.#inFlight.values()].map(({ tenantId }) => tenantId);
      const exceptTenants = tenantsAtLimit(tenants, webhooksPerTenantMax);
      const webhook = await this.#deps.queue.claim({ now, until: now + claimMs, exceptTenants });
      if (!webhook) return;
      const { id, tenantId } = webhook;
      const done = this.#deliver(webhook)
        // The store is away: the message is due again after a while by itself.
        .catch(() => undefined)
        .finally(() => this.#inFlight.delete(id));
      this.#inFlight.set(id, { tenantId, done });
    }
  }

  /** Resolves when everything that is on its way now has been answered or given up. */
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
    const status = body === undefined ? statusRemoved : await this.#post(webhook, body);
    if (status >= 200 && status < 300) return queue.remove(webhook.id);
    const waitMs = status === statusRemoved ? undefined : retryDelaysMs[webhook.attempts - 1];
    if (waitMs !== undefined) return queue.retry(webhook.id, now() + waitMs);
    onDropped(webhook);
    return queue.remove(webhook.id);
  }

  /** The status of the answer, or 0; what the receiver says beside it is shown to nobody. */
  async #post({ id, tenantId, url }: Webhook, body: string): Promise<number> {
    const { post, signer, now } = this.#deps;
    const answer = await post(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...signer.headers(tenantId, id, now(), body),
      },
      body,
      // Whatever stands behind a 2xx, however long or broken: the receiver has the message.
      bodyBytesMax: 0,
      timeoutMs: webhookMsMax,
    });
    return answer.ok ? answer.status : 0;
  }

  /** Written anew for each attempt, so that the link in it is fresh. */
  async #bodyOf({ tenantId, jobId, event, createdAt }: Webhook): Promise<string | undefined> {
    const { jobs, storage, now, baseUrl } = this.#deps;
    const job = await jobs.find(tenantId, jobId);
    if (!job) return undefined;
    const data = jobObject(job, { now: now(), baseUrl: baseUrl(), storage });
    return JSON.stringify({ type: event, timestamp: new Date(createdAt).toISOString(), data });
  }
}

/**
 * Signs messages as Standard Webhooks lays down, with a secret of each tenant's own. The secrets
 * are derived, so that none is kept and every process knows them all.
 */
export class WebhookSigner {
  readonly #keys: ReturnType<typeof derivedKeys>;

  constructor(...secrets: SecretKeys) {
    this.#keys = derivedKeys(secrets, 'webhook secrets');
  }

  /** What the tenant's receivers verify with. */
  secretOf(tenantId: string): string {
    return `whsec_${secretFrom(this.#keys[0], tenantId).toString('base64')}`;
  }

  headers(tenantId: string, id: string, sentAt: number, body: string): Record<string, string> {
    const timestamp = String(Math.floor(sentAt / 1000));
    const signed = `${id}.${timestamp}.${body}`;
    // One for each secret: a receiver that has not fetched the newest one goes on by the former.
    const signatures = this.#keys.map((key) => {
      const hmac = createHmac('sha256', secretFrom(key, tenantId));
      return `v1,${hmac.update(signed).digest('base64')}`;
    });
    return {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signatures.join(' '),
    };
  }
}

function secretFrom(key: Uint8Array, tenantId: string): Buffer {
  return createHmac('sha256', key).update(tenantId).digest();
}
