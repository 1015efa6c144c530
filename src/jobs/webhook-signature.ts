import { createHmac } from 'node:crypto';
import { derivedKey } from '../core/derived-key.ts';
import type { Secret } from '../core/secret.ts';

/**
 * Signs messages as Standard Webhooks lays down, with a secret of each tenant's own. The secrets
 * are derived, so that none is kept and every process knows them all.
 */
export class WebhookSigner {
  readonly #key: Uint8Array;

  constructor(secret: Secret) {
    this.#key = derivedKey(secret, 'webhook secrets');
  }

  /** What the tenant's receivers verify with. */
  secretOf(tenantId: string): string {
    return `whsec_${this.#secret(tenantId).toString('base64')}`;
  }

  headers(tenantId: string, id: string, sentAt: number, body: string): Record<string, string> {
    const timestamp = String(Math.floor(sentAt / 1000));
    const signed = `${id}.${timestamp}.${body}`;
    const signature = createHmac('sha256', this.#secret(tenantId)).update(signed).digest('base64');
    return {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    };
  }

  #secret(tenantId: string): Buffer {
    return createHmac('sha256', this.#key).update(tenantId).digest();
  }
}
