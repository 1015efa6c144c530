import { webhookMsMax, webhooksAtOnceMax, webhooksOfTenantMax } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import { crowded } from './crowded.ts';
import { jobObject } from './job-object.ts';
import type { ObjectStorage } from './objects.ts';
import type { JobBook, Webhook, WebhookQueue } from './queue.ts';
import type { WebhookSigner } from './webhook-signature.ts';

/** Calls an address that a user gave, in the guarded way; `ok` means that an answer arrived. */
export type PostToUser = (
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

interface WebhookParts {
  readonly queue: WebhookQueue;
  readonly book: Pick<JobBook, 'find'>;
  readonly storage: Pick<ObjectStorage, 'link'>;
  readonly signer: WebhookSigner;
  readonly post: PostToUser;
  /** Where receivers reach this gateway, for the links in a message. */
  baseUrl(): string;
  /** Called with a message that no attempt brought to its receiver. */
  onGivenUp(webhook: Webhook): void;
  now(): number;
}

const everyMs = 1_000;

/** When a process dies while it sends, another one sends again after this time. */
const againMs = 60_000;

/** Waits after failed attempts, as Standard Webhooks recommends; then the message is dropped. */
const waitsMs = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map((seconds) => seconds * 1000);

const gone = 410;

/** Tells receivers how jobs ended, again and again until they say that they have it. */
export class WebhookSender {
  readonly #parts: WebhookParts;
  readonly #underWay = new Map<string, { tenantId: string; ended: Promise<void> }>();
  #isStopped = false;

  constructor(parts: WebhookParts) {
    this.#parts = parts;
  }

  chores(): Chore[] {
    return [{ everyMs, run: () => this.send() }];
  }

  /** Starts every message that is due, as far as there are places. */
  async send(): Promise<void> {
    while (!this.#isStopped && this.#underWay.size < webhooksAtOnceMax) {
      const now = this.#parts.now();
      const tenants = [...this.#underWay.values()].map(({ tenantId }) => tenantId);
      const except = crowded(tenants, webhooksOfTenantMax);
      const webhook = await this.#parts.queue.claim({ now, until: now + againMs, except });
      if (!webhook) return;
      const { id, tenantId } = webhook;
      const ended = this.#deliver(webhook)
        // The store is away: the message is due again after a while by itself.
        .catch(() => undefined)
        .finally(() => this.#underWay.delete(id));
      this.#underWay.set(id, { tenantId, ended });
    }
  }

  /** Resolves when everything that is on its way now has been answered or given up. */
  async idle(): Promise<void> {
    await Promise.all([...this.#underWay.values()].map(({ ended }) => ended));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.idle();
  }

  async #deliver(webhook: Webhook): Promise<void> {
    const { queue, now, onGivenUp } = this.#parts;
    const body = await this.#bodyOf(webhook);
    const status = body === undefined ? gone : await this.#post(webhook, body);
    if (status >= 200 && status < 300) return queue.remove(webhook.id);
    const waitMs = status === gone ? undefined : waitsMs[webhook.attempts - 1];
    if (waitMs !== undefined) return queue.retry(webhook.id, now() + waitMs);
    onGivenUp(webhook);
    return queue.remove(webhook.id);
  }

  /** The status of the answer, or 0; what the receiver says beside it is shown to nobody. */
  async #post({ id, tenantId, url }: Webhook, body: string): Promise<number> {
    const { post, signer, now } = this.#parts;
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
    const { book, storage, now, baseUrl } = this.#parts;
    const job = await book.find(tenantId, jobId);
    if (!job) return undefined;
    const data = jobObject(job, { now: now(), baseUrl: baseUrl(), storage });
    return JSON.stringify({ type: event, timestamp: new Date(createdAt).toISOString(), data });
  }
}
